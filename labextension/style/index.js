import './panel.css';
