import '../../jupyter_traindbg/render/templates/style.css';
import './panel.css';
import './tables.css';
import './links.css';
