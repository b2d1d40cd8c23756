import zh from './catalogue.zh.json';
import { counted, language, pgettext, speak, speaking, text, whole } from './language';

afterEach(() => speak('en'));

test('English is what is written where it is said', () => {
  expect(text('step')).toBe('step');
  expect(text('rank {rank}: {words}', { rank: 3, words: 'waits in {here}' })).toBe('rank 3: waits in {here}');
  expect(pgettext('list', ', ')).toBe(', ');
});

test('one is not many', () => {
  const ranks = (n: number): string => counted('{n:,} rank', '{n:,} ranks', n);
  expect([ranks(1), ranks(2), ranks(12345)]).toEqual(['1 rank', '2 ranks', '12,345 ranks']);
  expect(counted('{n} job {state}', '{n} jobs {state}', 2, { state: 'hung' })).toBe('2 jobs hung');
});

test('another language has its own words, and one number', () => {
  speak('zh');
  expect(language()).toBe('zh');
  expect(text('step')).toBe('步');
  expect(pgettext('list', ', ')).toBe('、');
  expect([1, 2].map(n => counted('{n:,} rank', '{n:,} ranks', n))).toEqual(['1 个 rank', '2 个 rank']);
});

test('what has no translation, or a language that is not known, is English', () => {
  speak('zh');
  expect(text('nobody says this of {whom}', { whom: 'it' })).toBe('nobody says this of it');
  expect(text('constructor')).toBe('constructor');
  speak('tlh');
  expect([language(), text('step')]).toEqual(['en', 'step']);
  speak(undefined);
  expect(text('step')).toBe('step');
});

test('a text of somebody else is in their language, and then ours is spoken again', () => {
  speak('zh');
  expect(speaking('en', () => text('step'))).toBe('step');
  expect(text('step')).toBe('步');
  expect(() =>
    speaking('en', () => {
      throw new Error();
    })
  ).toThrow();
  expect(language()).toBe('zh');
});

test('a translation has the places that its message has, and no others', () => {
  const places = (words: string): string[] => [...new Set(words.match(/\{\w+(?=[}:])/g) ?? [])].sort();
  const odd = Object.entries(zh as Record<string, string>).filter(
    ([message, words]) => places(message).join() !== places(words).join()
  );
  expect(odd).toEqual([]);
});

test('large numbers have their thousands apart', () => expect(whole(1234567)).toBe('1,234,567'));
