import { useEffect, useState } from "preact/hooks";
import { ErrorPanel } from "../app/error-panel.tsx";
import type { RedirectAnswer, RedirectQuestion } from "../shared/protocol.ts";

export interface RedirectPanelProps {
  readonly error: unknown;
  readonly title: string;
  readonly url: string;
  readonly onAllow: (origin: string) => void;
}

/** A link whose server redirects to another one: which, and a button that allows it. */
export function RedirectPanel({ error, title, url, onAllow }: RedirectPanelProps) {
  const [origin, setOrigin] = useState<string>();
  useEffect(() => {
    void redirectTarget(url).then(setOrigin);
  }, [url]);
  return (
    <>
      <ErrorPanel title={title} error={error} />
      {origin === undefined ? null : (
        <section class="panel" aria-labelledby="redirect-title">
          <h2 id="redirect-title">It redirects to {new URL(origin).host}</h2>
          <p class="soft">
            The page asks no other server than that of the link until you allow it. The link then names {origin} too.
          </p>
          <div class="buttons">
            <button type="button" class="primary" onClick={() => onAllow(origin)}>
              Allow {new URL(origin).host}
            </button>
          </div>
        </section>
      )}
    </>
  );
}

/** The origin that an address redirects to; undefined where it does not answer. */
function redirectTarget(url: string): Promise<string | undefined> {
  const worker = new Worker(new URL("./redirects.js", import.meta.url), { type: "module" });
  return new Promise<string | undefined>((resolve) => {
    worker.onmessage = ({ data }: MessageEvent<RedirectAnswer>) => resolve(data.origin);
    worker.onerror = () => resolve(undefined);
    worker.postMessage({ url } satisfies RedirectQuestion);
  }).finally(() => worker.terminate());
}
