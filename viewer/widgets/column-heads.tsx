/** The title of a column, the class of its cells, and an explanation if the title does not suffice. */
export type ColumnHead = readonly [title: string, className: string, meaning?: string];

/** The head of a list whose columns cannot be sorted. */
export function columnHeads(columns: readonly ColumnHead[]) {
  return columns.map(([title, className, meaning]) => (
    <div key={title} role="columnheader" class={className} title={meaning}>
      {title}
    </div>
  ));
}
