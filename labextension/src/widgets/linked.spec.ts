import { Card, showCards } from './cards';
import { DataTable } from './dataTable';
import { linked } from './dom';

test('a link has what leads somewhere, and no code in it', () => {
  const hostile = '<img src=x onerror=alert(1)>';
  const made = linked(
    { 'data-traindbg-file': hostile, href: 'vscode://file/a.py:3', onclick: 'alert(1)' },
    hostile
  ) as Element;
  expect(made.getAttributeNames()).toEqual(['class', 'data-traindbg-file', 'href', 'data-lm-suppress-shortcuts']);
  expect([made.textContent, made.children.length]).toEqual([hostile, 0]);
  expect([linked(null, 'x'), linked(undefined, 'x'), linked({}, 'x')]).toEqual(['x', 'x', 'x']);
});

test.each(['https://a', 'http://a', '/home/ada/a.py:3', '../a.py#line=2', 'vscode://file/a.py:3'])(
  '%s is followed',
  href => expect((linked({ href }, 'x') as Element).getAttribute('href')).toBe(href)
);

test.each(['javascript:alert(1)', ' java\nscript:alert(1)', 'JavaScript:0', '\u0001data:text/html,x', 'file:///etc'])(
  '%j is not',
  href => expect(linked({ href }, 'x')).toBe('x')
);

test('cards lead to the place and to the page that they name', () => {
  const link = { 'data-traindbg-file': '/home/ada/src/train.py', 'data-traindbg-line': '3' };
  const card: Card = {
    severity: 'critical',
    word: 'CRITICAL',
    code: 'code',
    title: 'title',
    who: [],
    where: '/home/ada/src/train.py:3 f',
    source: null,
    evidence: [],
    cause: '',
    next_steps: [],
    confidence: 'high',
    reference: 'docs/logs.md'
  };
  const links = (more: Partial<Card>): HTMLAnchorElement[] => [
    ...showCards([{ ...card, ...more }], {}).querySelectorAll<HTMLAnchorElement>('a.traindbg-link')
  ];
  const [place, page] = links({ link, reference_link: { 'data-traindbg-page': 'docs/logs.md' } });
  expect([place.textContent, place.dataset.traindbgFile]).toEqual(['…/src/train.py:3 f', '/home/ada/src/train.py']);
  expect([page.textContent, page.dataset.traindbgPage]).toEqual(['docs/logs.md', 'docs/logs.md']);
  expect([links({}), links({ link: null, reference_link: null })]).toEqual([[], []]);
});

test('a column of a table can be links, and is filtered and sorted as without', () => {
  interface Row {
    where: string;
    file: string | null;
  }
  const table = new DataTable<Row>(
    'T',
    [
      {
        name: 'where',
        title: 'where',
        value: row => row.where,
        link: row => (row.file ? { 'data-traindbg-file': row.file } : null)
      }
    ],
    { keep: '' }
  );
  table.update([
    { where: 'b.py:1', file: '/b.py' },
    { where: 'a', file: null }
  ]);
  expect([...table.node.querySelectorAll('td')].map(cell => cell.textContent)).toEqual(['a', 'b.py:1']);
  expect([...table.node.querySelectorAll('td a')].map(link => link.textContent)).toEqual(['b.py:1']);
});
