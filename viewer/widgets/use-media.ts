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
