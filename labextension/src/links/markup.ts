// How a link says where it leads: jupyter_traindbg/render/links.py writes it, and the live widgets and the panel do alike.

/** A line of a file, counted from 1; `cell` is the number of the notebook's cell that the file stands for. */
export interface Place {
  file: string;
  line: number;
  cell: number | null;
}

/** A place, or the reference of a page of docs. */
export type Goal = Place | { page: string };

const LINKS = 'a.traindbg-link:is([data-traindbg-file], [data-traindbg-page])';

/** The link that `node` is in, if it is one of ours. */
export function linkAt(node: EventTarget | null): HTMLAnchorElement | null {
  return node instanceof Element ? node.closest<HTMLAnchorElement>(LINKS) : null;
}

export function goalOf(link: HTMLAnchorElement): Goal {
  const { traindbgFile: file, traindbgLine: line, traindbgCell: cell, traindbgPage: page } = link.dataset;
  return file === undefined ? { page: page! } : { file, line: whole(line) ?? 1, cell: whole(cell) };
}

function whole(digits: string | undefined): number | null {
  const value = Number(digits || NaN);
  return Number.isInteger(value) && value > 0 ? value : null;
}
