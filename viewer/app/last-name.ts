/** What people call a file: without folder, server, and the vaults that it lies in. */
export function lastName(label: string): string {
  const inner = label.slice(label.lastIndexOf("::") + 1).replace(/^:/, "");
  const path = inner.replace(/[?#].*$/, "");
  return path.slice(path.lastIndexOf("/") + 1) || label;
}
