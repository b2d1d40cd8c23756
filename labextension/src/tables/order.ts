// The order of rows, and which of them a filter lets through.

/** `given` by place, those without one last in both directions; equal ones stay as they were given. */
export function ordered<Row>(given: Row[], place: (row: Row) => number | null, down: boolean): Row[] {
  const places = new Map(given.map(row => [row, place(row)]));
  return [...given].sort((one, other) => {
    const [a, b] = [places.get(one) ?? null, places.get(other) ?? null];
    if (a === null || b === null) {
      return Number(a === null) - Number(b === null);
    }
    return down ? b - a : a - b;
  });
}

/** Whether each word of `filter` is in one of `cells`, whatever the case. */
export function passes(cells: string[], filter: string): boolean {
  const text = cells.join('\n').toLowerCase();
  return filter
    .toLowerCase()
    .split(/\s+/)
    .every(word => text.includes(word));
}
