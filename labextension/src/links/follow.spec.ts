import { followLinks } from './follow';
import { Goal } from './markup';

const opened: Goal[] = [];
const elsewhere: string[] = [];

/** A page with one link, in what folds, in what listens. */
function show(attributes: string): HTMLAnchorElement {
  document.body.innerHTML = `<details><summary>at <a class="traindbg-link" ${attributes}><code>train.py:11 step</code></a></summary></details>`;
  return document.querySelector('a')!;
}

/** Send it from the words in the link; whether anything else may still happen by it. */
function send(link: HTMLElement, event: Event): boolean {
  return link.querySelector('code')!.dispatchEvent(event);
}

const click = (keys: MouseEventInit = {}): Event =>
  new MouseEvent('click', { bubbles: true, cancelable: true, ...keys });
const enter = (keys: KeyboardEventInit = {}): Event =>
  new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true, ...keys });

const PLACE = 'data-traindbg-file="/home/ada/train.py" data-traindbg-line="11"';
const GOAL = { file: '/home/ada/train.py', line: 11, cell: null };

beforeAll(() => {
  followLinks(document, goal => opened.push(goal));
  for (const kind of ['click', 'keydown']) {
    document.body.addEventListener(kind, () => elsewhere.push(kind));
  }
});
beforeEach(() => {
  opened.length = elsewhere.length = 0;
  getSelection()!.removeAllRanges();
});

test.each([
  [PLACE, GOAL],
  [`${PLACE} href="train.py#line=10"`, GOAL],
  [
    'data-traindbg-file="/tmp/ipykernel_7/16.py" data-traindbg-line="3" data-traindbg-cell="4"',
    { file: '/tmp/ipykernel_7/16.py', line: 3, cell: 4 }
  ],
  [
    'data-traindbg-file="/a.py" data-traindbg-line="<b>" data-traindbg-cell="-1"',
    { file: '/a.py', line: 1, cell: null }
  ],
  ['data-traindbg-page="docs/failures.md#cuda_oom"', { page: 'docs/failures.md#cuda_oom' }]
])('a click and Enter on <a %s> open what it names, and nothing else happens', (attributes, goal) => {
  const link = show(attributes);
  expect([send(link, click()), send(link, enter())]).toEqual([false, false]);
  expect(opened).toEqual([goal, goal]);
  expect(elsewhere).toEqual([]);
  expect(document.querySelector('details')!.open).toBe(false);
});

test('where the browser would open a tab of its own, it does', () => {
  const link = show(`${PLACE} href="#"`);
  for (const key of ['ctrlKey', 'metaKey', 'shiftKey']) {
    expect([send(link, click({ [key]: true })), send(link, enter({ [key]: true }))]).toEqual([true, true]);
  }
  expect(opened).toEqual([]);
  send(show(PLACE), click({ ctrlKey: true }));
  expect(opened).toEqual([GOAL]);
});

test('other keys, other links and words that are being marked are left alone', () => {
  const link = show(PLACE);
  expect(send(link, enter({ key: 'a' }))).toBe(true);
  getSelection()!.selectAllChildren(link);
  send(link, click());
  getSelection()!.selectAllChildren(document.head);
  send(show('data-else="x"'), click());
  send(show('href="#there"'), enter());
  expect(opened).toEqual([]);
});

test('a link without an address is one for the keyboard and for ears once it appears', () => {
  const appear = (node: Element, animationName = 'traindbg-linked'): boolean =>
    node.dispatchEvent(Object.assign(new Event('animationstart', { bubbles: true }), { animationName }));
  const link = show(PLACE);
  appear(link, 'of somebody else');
  expect(link.hasAttribute('tabindex')).toBe(false);
  appear(link);
  expect([link.tabIndex, link.getAttribute('role')]).toEqual([0, 'link']);
  appear(document.querySelector('summary')!);
  expect(document.querySelector('summary')!.hasAttribute('role')).toBe(false);
});
