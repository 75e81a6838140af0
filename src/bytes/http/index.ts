export { type HttpOptions, openHttp } from "./open.ts";
export { fetchTransport, type HttpRequest, type HttpResponse, type HttpTransport } from "./transport.ts";
export { type HttpResolverOptions, httpResolver, type OpenUrl, parseOrigin } from "./url.ts";
