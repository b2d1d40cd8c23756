// Links of ours in the page: that they are displayed, and that a person follows one.

import { Goal, goalOf, linkAt } from './markup';

/** The animation by which the style sheet (style/links.css) tells that a link without an address is displayed. */
const APPEARED = 'traindbg-linked';

/**
 * Calls `open` where a person follows a link of ours, wherever in the page that is. Before all others who listen: JupyterLab opens what
 * has an address its own way, and what a link is in may be folded by a click.
 */
export function followLinks(page: Document, open: (goal: Goal) => void): void {
  const follow = (event: Event, link: HTMLAnchorElement): void => {
    event.preventDefault();
    event.stopPropagation();
    open(goalOf(link));
  };
  page.addEventListener(
    'click',
    event => {
      const link = linkAt(event.target);
      if (link && (link.hasAttribute('href') ? !withKeys(event) : !isSelected(link))) {
        follow(event, link);
      }
    },
    true
  );
  page.addEventListener(
    'keydown',
    event => {
      const link = linkAt(event.target);
      if (link && event.key === 'Enter' && !withKeys(event)) {
        follow(event, link);
      }
    },
    true
  );
  page.addEventListener('animationstart', event => {
    const link = event.animationName === APPEARED && linkAt(event.target);
    if (link) {
      link.setAttribute('role', 'link');
      link.tabIndex = 0;
    }
  });
}

/** As a browser opens what has an address in a tab or a window of its own. */
function withKeys(event: MouseEvent | KeyboardEvent): boolean {
  return event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;
}

/** Whether its text is being marked, as one does to copy it: the browser calls it a click where the mouse lets go. */
function isSelected(link: HTMLAnchorElement): boolean {
  const selection = link.ownerDocument.getSelection();
  return selection?.type === 'Range' && selection.getRangeAt(0).intersectsNode(link);
}
