import type { RedirectAnswer, RedirectQuestion } from "../shared/protocol.ts";

/**
 * Tells where an address redirects to. A page learns that its policy blocked a redirect, but never where that leads
 * (CSP 3, "Create a violation object for request": the address before redirects). A worker that is loaded from an
 * address has the policy that its server sends with it, not that of the page, so it may follow. It asks for one byte,
 * sends no credentials, and nothing of the reply but the address leaves it.
 */

addEventListener("message", ({ data }: MessageEvent<RedirectQuestion>) => {
  void originOf(data.url).then((origin) => postMessage({ origin } satisfies RedirectAnswer));
});

async function originOf(url: string): Promise<string | undefined> {
  const headers = { range: "bytes=0-0" };
  const request = { headers, credentials: "omit", referrerPolicy: "no-referrer", cache: "no-store" } as const;
  try {
    const response = await fetch(url, request);
    await response.body?.cancel();
    return new URL(response.url).origin;
  } catch {
    return undefined;
  }
}
