import { useEffect, useState } from "preact/hooks";

/** How long the button says that it worked. */
const SAID_MS = 2000;

/** Copies the address of what is on screen: the file, and the page, tensor or byte in it. */
export function CopyLink() {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), SAID_MS);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = (): void => {
    // Pages without TLS have no clipboard: then the link is shown, to be copied by hand.
    if (navigator.clipboard === undefined) prompt("The link of this page", location.href);
    else void navigator.clipboard.writeText(location.href).then(() => setCopied(true));
  };
  return (
    <button type="button" class="quiet" onClick={copy} aria-live="polite">
      {isCopied ? "Link copied" : "Copy link"}
    </button>
  );
}
