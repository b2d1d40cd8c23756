// What jest finds where the sources import a style sheet or a picture.
module.exports = '';
