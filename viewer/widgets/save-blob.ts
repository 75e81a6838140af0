/** Gives a blob to the browser as a download. */
export function saveBlob(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  // Separators would be taken as folders, or replaced differently by each browser.
  link.download = name.replace(/[\\/:]+/g, "_");
  link.click();
  // Once it has begun, the download keeps the blob itself.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
