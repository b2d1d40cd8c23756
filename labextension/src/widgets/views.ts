// The views there are. Python says which of them a widget has, and in which order.

import { CHECKPOINT } from './checkpoint';
import { CURVES } from './curves';
import { DIAGNOSIS } from './diagnosis';
import { GRADIENTS } from './gradients';
import { LEARNING_RATE } from './learning_rate';
import { View } from './view';

export const VIEWS: View[] = [CURVES, GRADIENTS, LEARNING_RATE, CHECKPOINT, DIAGNOSIS];
