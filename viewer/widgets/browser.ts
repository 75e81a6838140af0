import { useEffect, useState } from "preact/hooks";

/** Whether a media query holds, now and after changes. */
export function useMedia(text: string): boolean {
  const [isTrue, setTrue] = useState(() => matchMedia(text).matches);
  useEffect(() => {
    const query = matchMedia(text);
    const follow = (): void => setTrue(query.matches);
    query.addEventListener("change", follow);
    return () => query.removeEventListener("change", follow);
  }, [text]);
  return isTrue;
}

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
