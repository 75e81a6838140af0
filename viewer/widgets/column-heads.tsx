/** What stands over a column, the class of its cells, and what it means where the title cannot say it. */
export type ColumnHead = readonly [title: string, className: string, meaning?: string];

/** The head of a list whose columns cannot be sorted. */
export function columnHeads(columns: readonly ColumnHead[]) {
  return columns.map(([title, className, meaning]) => (
    <div key={title} role="columnheader" class={className} title={meaning}>
      {title}
    </div>
  ));
}
