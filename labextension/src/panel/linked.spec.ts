import { Linked, pageOf, placeOf } from './linked';

const SOURCE = { file: '/home/ada/train.py', line: 11, first: 9, lines: ['a', 'b', 'c'] };

test('a finding leads to its line, and to its cell', () => {
  const place = { 'data-traindbg-file': '/home/ada/train.py', 'data-traindbg-line': '11' };
  expect(placeOf(null)).toBeNull();
  expect(placeOf(SOURCE)).toEqual(place);
  expect(placeOf({ ...SOURCE, cell: null })).toEqual(place);
  expect(placeOf({ ...SOURCE, cell: 4 })).toEqual({ ...place, 'data-traindbg-cell': '4' });
});

test('a reference leads to a page of ours, or of the web', () => {
  expect(pageOf('docs/logs.md#following')).toEqual({ 'data-traindbg-page': 'docs/logs.md#following' });
  expect(pageOf('https://pytorch.org')).toMatchObject({ href: 'https://pytorch.org', rel: 'noopener noreferrer' });
  expect([pageOf('javascript:alert(1)'), pageOf('the manual')]).toEqual([null, null]);
});

test('what leads nowhere is no link', () => {
  expect(Linked({ to: pageOf('the manual'), children: 'x' }).type).not.toBe('a');
  expect(Linked({ to: pageOf('docs/logs.md'), children: 'x' })).toMatchObject({
    type: 'a',
    props: { className: 'traindbg-link', 'data-traindbg-page': 'docs/logs.md', children: 'x' }
  });
});
