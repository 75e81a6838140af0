import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type CraftedFile, craftVault, VAULT_PASSWORD } from "../../../../../test/builders/crafted-vault.ts";
import { quickEngine } from "../../../../../test/builders/sealed-apr.ts";
import { type RawReply, requestRaw } from "../../../../../test/support/raw-request.ts";
import { encodeUtf8 } from "../../../../base/text.ts";
import { type Server, serve } from "../index.ts";

const MANY = 3000;
const file = (path: string, content: string): CraftedFile => ({ path, chunks: [encodeUtf8(content)] });
let folder: string;
let server: Server;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-webdav-"));
  const path = join(folder, "models.aerovault");
  const engine = quickEngine();
  const files = [
    { path: "weights", type: "directory" } as const,
    file("weights/a & <b>.json", "{}"),
    file("weights/deep/c.bin", "ccc"),
    file("weights/odd\u0001name", "odd"),
    ...Array.from({ length: MANY }, (_, i) => file(`many/${i}`, "same")),
  ];
  writeFileSync(path, await craftVault(files, { engine }));
  server = await serve(path, { port: 0, engine, password: VAULT_PASSWORD, env: {} });
});

afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

const at = (path: string): string => new URL(server.url).pathname + path;

function propfind(path: string, depth: string | undefined, body?: string): Promise<RawReply> {
  const headers: Record<string, string> = depth === undefined ? {} : { depth };
  if (body !== undefined) headers["content-length"] = String(Buffer.byteLength(body));
  return requestRaw(server.url, { method: "PROPFIND", path: at(path), headers, body: body ?? "" });
}

const asking = (content: string): string =>
  `<?xml version="1.0"?><D:propfind xmlns:D="DAV:" xmlns:x="urn:x">${content}</D:propfind>`;
const hrefs = ({ body }: RawReply): string[] =>
  [...body.toString().matchAll(/<D:href>([^<]*)<\/D:href>/g)].map(([, href = ""]) => href);
/** The response for one address. */
const responseFor = ({ body }: RawReply, href: string): string =>
  new RegExp(`<D:response><D:href>${at(href)}</D:href>(.*)</D:response>`).exec(body.toString())?.[1] ?? "none";

describe("PROPFIND", () => {
  test("with Depth 0 is about the folder alone, with 1 about what is in it", async () => {
    const alone = await propfind("/weights/", "0");
    expect(alone.status).toBe(207);
    expect(alone.headers["content-type"]).toBe("application/xml; charset=utf-8");
    expect(hrefs(alone)).toEqual([at("/weights/")]);
    const listed = await propfind("/weights", "1");
    expect(hrefs(listed)).toEqual([
      at("/weights/"),
      at("/weights/a%20%26%20%3Cb%3E.json"),
      at("/weights/deep/"),
      at("/weights/odd%01name"),
    ]);
    expect(listed.headers["content-length"]).toBe(String(listed.body.byteLength));
    expect(hrefs(await propfind("/", "1"))).toEqual([at("/"), at("/many/"), at("/weights/")]);
    expect(hrefs(await propfind("", "0"))).toEqual([at("/")]);
  });

  test("gives every property that a file or folder has", async () => {
    const listed = await propfind("/weights/", "1");
    const { headers } = await requestRaw(server.url, { path: at("/weights/deep/c.bin") });
    expect(responseFor(listed, "/weights/a%20%26%20%3Cb%3E.json")).toMatch(
      /^<D:propstat><D:prop><D:resourcetype\/><D:displayname>a &#38; &#60;b&#62;.json<\/D:displayname><D:getcontentlength>2<\/D:getcontentlength><D:getcontenttype>application\/json<\/D:getcontenttype><D:getlastmodified>Wed, 17 Jun 2026 00:00:00 GMT<\/D:getlastmodified><D:getetag>&#34;[0-9a-f]{64}&#34;<\/D:getetag><\/D:prop><D:status>HTTP\/1.1 200 OK<\/D:status><\/D:propstat>$/,
    );
    const folderOf = responseFor(listed, "/weights/deep/");
    expect(folderOf).toContain("<D:resourcetype><D:collection/></D:resourcetype>");
    expect(folderOf).not.toMatch(/getcontentlength|404/);
    const one = await propfind("/weights/deep/c.bin", "1");
    expect(responseFor(one, "/weights/deep/c.bin")).toContain(`&#34;${headers["etag"]?.slice(1, -1)}&#34;`);
    // No XML can have the character of the name.
    expect(responseFor(listed, "/weights/odd%01name")).toContain("odd\ufffdname");
    expect(responseFor(await propfind("/", "0"), "/")).toContain("<D:displayname>models.aerovault</D:displayname>");
  });

  test("gives the named properties, and 404 for others", async () => {
    const body = asking("<D:prop><D:getcontentlength/><x:other/><D:quota/><none/></D:prop>");
    const listed = await propfind("/weights/", "1", body);
    expect(responseFor(listed, "/weights/a%20%26%20%3Cb%3E.json")).toBe(
      '<D:propstat><D:prop><D:getcontentlength>2</D:getcontentlength></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat><D:propstat><D:prop><x:other xmlns:x="urn:x"/><D:quota/><none/></D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat>',
    );
    expect(responseFor(listed, "/weights/deep/")).toBe(
      '<D:propstat><D:prop><D:getcontentlength/><x:other xmlns:x="urn:x"/><D:quota/><none/></D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat>',
    );
    expect(responseFor(await propfind("/weights/", "0", asking("<D:prop/>")), "/weights/")).toBe(
      "<D:propstat><D:prop></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>",
    );
  });

  test("gives the names of properties, and everything with more", async () => {
    const names = responseFor(await propfind("/weights/", "0", asking("<D:propname/>")), "/weights/");
    expect(names).toContain("<D:prop><D:resourcetype/><D:displayname/><D:getlastmodified/></D:prop>");
    const all = await propfind("/weights/", "0", asking("<D:allprop/><D:include><x:other/></D:include>"));
    expect(responseFor(all, "/weights/")).toMatch(/<D:collection\/>.*<x:other xmlns:x="urn:x"\/>.*404 Not Found/);
  });

  test("a long list comes whole, in pieces", async () => {
    const listed = await propfind("/many/", "1");
    expect(listed.headers["transfer-encoding"]).toBe("chunked");
    expect(hrefs(listed)).toHaveLength(MANY + 1);
    expect(listed.body.toString()).toMatch(/<\/D:multistatus>\n$/);
  });

  test.each(["infinity", "Infinity", undefined])("with Depth %s is refused for a folder", async (depth) => {
    const reply = await propfind("/", depth);
    expect(reply.status).toBe(403);
    expect(reply.body.toString()).toContain("<D:propfind-finite-depth/>");
    expect((await propfind("/weights/deep/c.bin", depth)).status).toBe(207);
  });

  test.each(["2", "1,noroot", "-1", "0, 1", "x"])("with Depth %s is refused", async (depth) => {
    expect((await propfind("/", depth)).status).toBe(400);
  });

  test("of nothing, of a file with a slash, and of a path out of the vault", async () => {
    expect((await propfind("/nothing", "0")).status).toBe(404);
    expect((await propfind("/weights/deep/c.bin/", "0")).status).toBe(404);
    expect((await propfind("/weights/%2e%2e/", "0")).status).toBe(400);
  });

  test("with entities is refused, and nothing is replaced", async () => {
    const bomb = `<!DOCTYPE l [<!ENTITY a "${"x".repeat(1000)}">${"bcdefgh".replace(/./g, (name) => `<!ENTITY ${name} "${`&${String.fromCharCode(name.charCodeAt(0) - 1)};`.repeat(20)}">`)}]>`;
    const reply = await propfind(
      "/",
      "0",
      `<?xml version="1.0"?>${bomb}<D:propfind xmlns:D="DAV:"><D:prop>&h;</D:prop></D:propfind>`,
    );
    expect(reply.status).toBe(400);
    expect(reply.body.toString()).toMatch(/no document type and no entities/);
  });

  test("with a body of more than 64 KiB is refused, before it was sent", async () => {
    const length = asking(`<D:allprop/>${" ".repeat(65536 - asking("<D:allprop/>").length)}`);
    expect((await propfind("/weights/", "0", length)).status).toBe(207);
    const reply = await begin("Content-Length: 2000000");
    expect(reply).toMatch(/^HTTP\/1\.1 400 /);
    expect(await begin("Transfer-Encoding: chunked", `10001\r\n${"x".repeat(65537)}\r\n`)).toMatch(/^HTTP\/1\.1 400 /);
  });
});

/** The reply to a request whose body does not end. */
async function begin(header: string, body = ""): Promise<string> {
  const socket = connect(server.port, "127.0.0.1");
  socket.on("error", () => undefined);
  socket.write(`PROPFIND ${at("/")} HTTP/1.1\r\nHost: localhost\r\nDepth: 0\r\n${header}\r\n\r\n${body}`);
  let text = "";
  for await (const piece of socket) text += String(piece);
  return text;
}

test("OPTIONS tells the class; everything that writes is refused", async () => {
  const options = await requestRaw(server.url, { method: "OPTIONS", path: at("/") });
  expect([options.status, options.headers["dav"], options.headers["allow"]]).toEqual([
    204,
    "1",
    "GET, HEAD, OPTIONS, PROPFIND",
  ]);
  const methods = ["PUT", "DELETE", "MKCOL", "MOVE", "COPY", "PROPPATCH", "LOCK", "UNLOCK", "POST", "PATCH", "REPORT"];
  for (const method of methods) {
    const { status, headers } = await requestRaw(server.url, { method, path: at("/new") });
    expect([method, status, headers["allow"]]).toEqual([method, 405, "GET, HEAD, OPTIONS, PROPFIND"]);
  }
  expect((await propfind("/new", "0")).status).toBe(404);
});
