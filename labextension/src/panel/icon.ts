import { LabIcon } from '@jupyterlab/ui-components';
import svgstr from '../../style/icons/traindbg.svg';

export const traindbgIcon = new LabIcon({ name: 'traindbg:icon', svgstr });
