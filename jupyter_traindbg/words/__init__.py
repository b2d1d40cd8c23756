"""How data are said to people, in their language: the words that several rooms need. Imports only data."""
