import { type AddressInfo, connect, createServer as createSocketServer } from "node:net";
import { onTestFinished } from "vitest";

/** A SOCKS5 proxy on loopback that takes any user, and answers with `refusal` where that is not 0. */
export async function startSocksServer(
  refusal = 0,
): Promise<{ readonly url: string; readonly asked: readonly string[] }> {
  const asked: string[] = [];
  const server = createSocketServer(async (socket) => {
    socket.on("error", () => undefined);
    const pieces = socket[Symbol.asyncIterator]();
    let pending = Buffer.alloc(0);
    const take = async (length: number): Promise<Buffer> => {
      while (pending.byteLength < length) pending = Buffer.concat([pending, (await pieces.next()).value as Buffer]);
      const taken = pending.subarray(0, length);
      pending = pending.subarray(length);
      return taken;
    };
    const text = async (): Promise<string> => (await take((await take(1))[0] ?? 0)).toString();
    const methods = await take((await take(2))[1] ?? 0);
    let user = "";
    if (methods.includes(2)) {
      socket.write(Uint8Array.of(5, 2));
      await take(1);
      user = `${await text()}:${await text()}`;
      socket.write(Uint8Array.of(1, 0));
    } else socket.write(Uint8Array.of(5, 0));
    const kind = (await take(4))[3];
    const host = kind === 3 ? await text() : [...(await take(4))].join(".");
    const port = (await take(2)).readUInt16BE();
    asked.push(`${user} ${host}:${port}`);
    if (refusal !== 0) return void socket.end(Uint8Array.of(5, refusal, 0, 1, 0, 0, 0, 0, 0, 0));
    const onward = connect(port, host === "localhost" ? "127.0.0.1" : host, () => {
      socket.write(Uint8Array.of(5, 0, 0, 1, 0, 0, 0, 0, 0, 0));
      onward.on("data", (piece) => socket.write(piece));
      onward.on("close", () => socket.destroy());
    });
    onward.on("error", () => socket.destroy());
    for (let next = await pieces.next(); next.done !== true; next = await pieces.next())
      onward.write(next.value as Buffer);
    onward.destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
  });
  return { url: `socks5://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}
