// The reader's language, as jupyter_traindbg/language.py has it for Python: a text is written once, in English, where it is said, and
// scripts/messages.py finds it there and keeps the catalogue beside this file.

import zh from './catalogue.zh.json';

const CATALOGUES = new Map([['zh', new Map<string, string>(Object.entries(zh))]]);

/** The names in `{name}` and `{n:,}`. */
type Places<Message extends string> = Message extends `${string}{${infer Place}}${infer Rest}`
  ? (Place extends `${infer Name}:,` ? Name : Place) | Places<Rest>
  : never;

/** A value for each place; nothing where there is none. */
type Values<Place extends string> = [Place] extends [never] ? [] : [values: { [place in Place]: string | number }];

let spoken = 'en';

/**
 * What is said from now on is said in `language`; in English, where it has no catalogue. One for all that is in a bundle: the plugins are
 * of one server, and anywidget loads a bundle for each widget of a page anew, so that each speaks as its kernel does.
 */
export function speak(language: string | undefined): void {
  spoken = language !== undefined && CATALOGUES.has(language) ? language : 'en';
}

/** `"en"`, or the language of a catalogue. */
export function language(): string {
  return spoken;
}

/** What `say` returns when it speaks `language`. */
export function speaking<Said>(language: string, say: () => Said): Said {
  const before = spoken;
  speak(language);
  try {
    return say();
  } finally {
    spoken = before;
  }
}

/** `message` in the reader's language, with what belongs into its `{places}`. */
export function text<Message extends string>(message: Message, ...values: Values<Places<Message>>): string {
  return filled(translated(message) ?? message, values[0]);
}

/** `text`, in the number that goes with `n`, which is the value of `{n}` and, with thousands apart, of `{n:,}`. */
export function counted<One extends string, Many extends string>(
  one: One,
  many: Many,
  n: number,
  ...values: Values<Exclude<Places<One> | Places<Many>, 'n'>>
): string {
  return filled(translated(one) ?? (n === 1 ? one : many), { n, ...values[0] });
}

/** `text`, where one English word is several in another language: `context` tells them apart. By the name that gettext has for it. */
export function pgettext<Message extends string>(
  context: string,
  message: Message,
  ...values: Values<Places<Message>>
): string {
  return filled(translated(`${context}\u0004${message}`) ?? message, values[0]);
}

function translated(key: string): string | undefined {
  return CATALOGUES.get(spoken)?.get(key);
}

function filled(message: string, values: Record<string, string | number> | undefined): string {
  if (values === undefined) {
    return message;
  }
  return message.replace(/\{(\w+)(:,)?\}/g, (place, name: string, grouped?: string) => {
    const value = values[name];
    return value === undefined ? place : grouped && typeof value === 'number' ? whole(value) : String(value);
  });
}

/** With thousands apart, as all languages here write it: 12,345. */
export function whole(n: number): string {
  return n.toLocaleString('en-US');
}
