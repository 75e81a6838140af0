/** Hands a blob to the browser as a download. */
export function saveBlob(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  // Separators would be taken for folders, or replaced in ways that differ by browser.
  link.download = name.replace(/[\\/:]+/g, "_");
  link.click();
  // The download has its own hold on the blob once it began.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
