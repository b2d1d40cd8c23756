// The live widget's entry: anywidget calls `render` for each place where it is shown. A state line, tabs, and the views below.

import './watch.css';

import { speak } from '../common/language';
import { mountWatch, WidgetModel } from './container';
import { VIEWS } from './views';

export default {
  render({ model, el }: { model: WidgetModel; el: HTMLElement }): () => void {
    speak(model.get('about')?.language);
    return mountWatch(model, el, VIEWS);
  }
};
