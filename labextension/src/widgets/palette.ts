// Colours that follow JupyterLab's theme, or the reader's own preference where there is none. Read anew when the theme changes.

const LINES_LIGHT = ['#0072b2', '#d55e00', '#00815f', '#b0468a', '#8a6d00', '#2b8cbe', '#7450b8', '#5f5f5f'];
const LINES_DARK = ['#56b4e9', '#ff9a4d', '#2fcf9f', '#f08fc6', '#e6c229', '#9ad0f5', '#b79bf2', '#c0c0c0'];
export const DASHES: number[][] = [[], [6, 3], [2, 2], [8, 3, 2, 3]];

export interface Palette {
  lines: string[];
  text: string;
  grid: string;
  mark: string;
  bad: string;
  background: string;
}

export function palette(node: HTMLElement): Palette {
  const style = getComputedStyle(node);
  const read = (name: string, otherwise: string) => style.getPropertyValue(name).trim() || otherwise;
  const dark = isDark(read('--tdb-bg', '#ffffff'));
  return {
    lines: dark ? LINES_DARK : LINES_LIGHT,
    text: read('--tdb-fg', '#222222'),
    grid: read('--tdb-line', '#dddddd'),
    mark: read('--tdb-muted', '#666666'),
    bad: read('--tdb-bad', '#c62828'),
    background: read('--tdb-bg', '#ffffff')
  };
}

/** Red, green, blue of a CSS colour (#rgb, #rrggbb, rgb(...), black, white); undefined for another. */
export function channels(colour: string): number[] | undefined {
  const named: Record<string, number[]> = { black: [0, 0, 0], white: [255, 255, 255] };
  const hex = /^#([0-9a-f]{3}|[0-9a-f]{6})$/i.exec(colour);
  if (hex) {
    const digits = hex[1].length === 3 ? [...hex[1]].map(d => d + d).join('') : hex[1];
    return [0, 2, 4].map(i => parseInt(digits.slice(i, i + 2), 16));
  }
  const rgb = /^rgba?\(([^)]*)\)/i.exec(colour)?.[1].split(/[\s,/]+/);
  return rgb ? rgb.slice(0, 3).map(Number) : named[colour.toLowerCase()];
}

/** Whether a CSS colour is nearer to black than to white. */
export function isDark(colour: string): boolean {
  const rgb = channels(colour);
  return rgb !== undefined && 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] < 128;
}

/** `share` of one colour on top of another, opaque. */
export function blend(colour: string, on: string, share: number): string {
  const [top, below] = [channels(colour), channels(on) ?? [255, 255, 255]];
  return top ? `rgb(${top.map((value, i) => Math.round(value * share + below[i] * (1 - share))).join(', ')})` : colour;
}

/** Call back when the theme changes; returns what ends that. */
export function onThemeChange(callback: () => void): () => void {
  const observer = new MutationObserver(() => window.setTimeout(callback, 100)); // the style sheet comes after the attribute
  const watched = {
    attributes: true,
    attributeFilter: ['data-jp-theme-name', 'data-jp-theme-light', 'class', 'style']
  };
  observer.observe(document.body, watched);
  const preference = window.matchMedia?.('(prefers-color-scheme: dark)');
  preference?.addEventListener('change', callback);
  return () => {
    observer.disconnect();
    preference?.removeEventListener('change', callback);
  };
}
