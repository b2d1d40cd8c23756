// The live widget's entry: anywidget calls `render` for each place where it is shown. A state line, tabs, and the views below.

import './watch.css';

import { mountWatch, WidgetModel } from './container';
import { VIEWS } from './views';

export default {
  render({ model, el }: { model: WidgetModel; el: HTMLElement }): () => void {
    return mountWatch(model, el, VIEWS);
  }
};
