import { afterEach, describe, expect, test } from "vitest";
import { httpContract } from "../../../test/contracts/http-contract.ts";
import { patternBytes } from "../../../test/contracts/source-contract.ts";
import { type RangeServer, startRangeServer } from "../../../test/support/range-server.ts";
import { fetchTransport, openHttp } from "./index.ts";

httpContract("fetch", fetchTransport);

describe("fetchTransport()", () => {
  const servers: RangeServer[] = [];
  afterEach(async () => {
    await Promise.all(servers.splice(0).map((server) => server.close()));
  });
  const start = async (): Promise<[RangeServer, RangeServer]> => {
    const [from, to] = [await startRangeServer(patternBytes(10)), await startRangeServer(patternBytes(10))];
    servers.push(from, to);
    from.setFault(() => ({ status: 302, headers: { location: to.url } }));
    return [from, to];
  };

  test("follows redirects, and fetch takes Authorization off at another origin", async () => {
    const [from, to] = await start();
    const source = await openHttp(from.url, { headers: { authorization: "Bearer secret" } });
    expect(source.byteLength).toBe(10);
    expect(from.requests[0]?.headers["authorization"]).toBe("Bearer secret");
    expect(to.requests[0]?.headers["authorization"]).toBeUndefined();
  });
  test("refuses redirects with any other header of the caller", async () => {
    const [from, to] = await start();
    const opening = openHttp(from.url, { headers: { "x-api-key": "secret" }, retry: { retries: 0 } });
    await expect(opening).rejects.toMatchObject({ code: "source/http.network" });
    expect(to.requests).toEqual([]);
  });
  test("sends no condition that would need a preflight", async () => {
    const server = await startRangeServer(patternBytes(10_000));
    servers.push(server);
    const source = await openHttp(server.url, { headBytes: 100 });
    await source.read(5000, 10);
    expect(server.requests.map(({ headers }) => headers["if-range"])).toEqual([undefined, undefined]);
  });
});
