// What a page remembers of a widget across being drawn anew and across a reload: the tab, the zoom. Gone when the browser's tab closes.

type Value = string | number | boolean | null | Value[] | { [key: string]: Value };

const memory = new Map<string, string>();

export function get(widget: string, key: string): Value | undefined {
  const name = `traindbg:${widget}:${key}`;
  let text: string | null | undefined;
  try {
    text = window.sessionStorage.getItem(name);
  } catch {
    text = memory.get(name); // a frame that may not keep anything
  }
  return text === null || text === undefined ? undefined : (JSON.parse(text) as Value);
}

export function put(widget: string, key: string, value: Value): void {
  const name = `traindbg:${widget}:${key}`;
  const text = JSON.stringify(value);
  try {
    window.sessionStorage.setItem(name, text);
  } catch {
    memory.set(name, text);
  }
}
