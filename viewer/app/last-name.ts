/** The short name of a file: without folder, server, and the vaults around it. */
export function lastName(label: string): string {
  const inner = label.slice(label.lastIndexOf("::") + 1).replace(/^:/, "");
  const path = inner.replace(/[?#].*$/, "");
  return path.slice(path.lastIndexOf("/") + 1) || label;
}
