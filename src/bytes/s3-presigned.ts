import type { HttpRequest, HttpResponse, HttpTransport } from "./http-transport.ts";
import { parseHttpUrl } from "./http-url.ts";
import { readRefusal, s3Error } from "./s3-errors.ts";

/** Query parameters that carry a signature: SigV4, the older SigV2, and those of Google's and Azure's stores. */
const SIGNATURE = /[?&](x-amz-signature|x-goog-signature|signature|sig)=/i;

/**
 * Explains why a URL that carries its own signature is refused: most often it has expired, which only the store's error
 * document says. Other URLs pass untouched.
 */
export function explainSignedUrls(inner: HttpTransport): HttpTransport {
  return {
    conditions: inner.conditions,
    async request(request: HttpRequest): Promise<HttpResponse> {
      const response = await inner.request(request);
      const isRefused = response.status === 403 || response.status === 401 || response.status === 400;
      if (!isRefused || !SIGNATURE.test(request.url)) return response;
      throw s3Error(await readRefusal(response), parseHttpUrl(request.url).label);
    },
  };
}
