import { copyFileSync, mkdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { serveDirectory } from "../../src/platform/node/serve/serve-directory.ts";
import { describeInBrowser } from "./browser.ts";
import { type Models, makeModels } from "./models.ts";

/** Behind the tables of the demo's files, and before their ends. */
const CUT = 1_500_000;

describeInBrowser("opening in the viewer", (viewer) => {
  let models: Models;
  beforeAll(async () => {
    models = await makeModels();
  });
  afterAll(() => models.remove());

  it("a file that is dropped on the page gives the overview that inspect gives", async () => {
    const visit = await viewer().visit();
    const { page } = visit;
    await page.goto(viewer().url);
    const bytes = readFileSync(models.path("demo.gguf")).toString("base64");
    const transfer = await page.evaluateHandle((text) => {
      const data = new DataTransfer();
      data.items.add(new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], "demo.gguf"));
      return data;
    }, bytes);
    await page.dispatchEvent("body", "drop", { dataTransfer: transfer });
    await page.getByRole("heading", { name: "tare demo" }).waitFor();
    const text = await page.locator("main").innerText();
    for (const said of ["GGUF 3", "2.83 MB", "1.41 M", "39", "90.5 %", "28 tensors", "llama", "no digests"]) {
      expect(text).toContain(said);
    }
    expect(await page.title()).toBe("demo.gguf · tare");
    visit.calm();
    await visit.close();
  });

  it("every format opens, and what it is called stands at the top", async () => {
    const visit = await viewer().visit();
    const expected = [
      ["demo.safetensors", "SafeTensors"],
      ["demo.aero", "AERO 0.1"],
      ["demo.apr", "APR"],
      ["demo.weights", "EMBD"],
    ] as const;
    for (const [name, format] of expected) {
      await visit.choose(models.path(name));
      await visit.page.locator(".overview").waitFor();
      expect(await visit.page.locator(".figures").first().innerText(), name).toContain(format);
    }
    visit.calm();
    await visit.close();
  });

  it("the files of a set open together, whichever of them is first", async () => {
    const visit = await viewer().visit();
    const names = ["demo-part-000.aero", "demo.aeroset.json", "demo-index.aero"];
    await visit.choose(...names.map((name) => models.path(name)));
    await visit.page.locator(".overview").waitFor();
    expect(await visit.page.locator(".figures").first().innerText()).toContain("AEROSET");
    await visit.choose(models.path("demo.gguf"), models.path("demo.apr"));
    await visit.page.getByRole("button", { name: "demo.apr" }).click();
    await visit.page.locator(".overview").waitFor();
    expect(await visit.page.locator(".figures").first().innerText()).toContain("APR");
    visit.calm();
    await visit.close();
  });

  it("a folder opens as what is in it", async () => {
    const visit = await viewer().visit();
    mkdirSync(models.path("set"));
    for (const name of ["demo-part-000.aero", "demo.aeroset.json", "demo-index.aero"]) {
      copyFileSync(models.path(name), models.path(`set/${name}`));
    }
    await visit.page.goto(viewer().url);
    await visit.page.getByLabel("Choose a folder").setInputFiles(models.path("set"));
    await visit.page.locator(".overview").waitFor();
    expect(await visit.page.locator(".figures").first().innerText()).toContain("AEROSET");
    visit.calm();
    await visit.close();
  });

  it("a damaged file says what is wrong and where, and shows the bytes there", async () => {
    const visit = await viewer().visit();
    const { page } = visit;
    const cut = Buffer.concat([
      Buffer.from("GGUF"),
      Buffer.from([3, 0, 0, 0]),
      Buffer.alloc(8, 0xff),
      Buffer.alloc(40),
    ]);
    await page.goto(viewer().url);
    const file = { name: "cut.gguf", mimeType: "application/octet-stream", buffer: cut };
    await page.locator("input[type=file]").first().setInputFiles(file);
    const alert = page.getByRole("alert");
    await alert.waitFor();
    expect(await alert.innerText()).toMatch(/Damaged GGUF[\s\S]*byte 8/);
    await page.getByRole("link", { name: "Look at the bytes there" }).click();
    await page.locator(".hex-bytes .asked").waitFor();
    expect(await page.locator(".hex-line").first().innerText()).toContain("47");
    visit.calm();
    await visit.close();
  });

  it.each(["demo.gguf", "demo.safetensors", "demo.aero"])(
    "of a file whose end is missing everything else is shown, and what is missing is red: %s",
    async (name) => {
      const visit = await viewer().visit();
      const { page } = visit;
      await page.goto(viewer().url);
      const file = {
        name,
        mimeType: "application/octet-stream",
        buffer: readFileSync(models.path(name)).subarray(0, CUT),
      };
      await page.locator("input[type=file]").first().setInputFiles(file);
      await page.getByRole("alert").waitFor();
      expect(await page.getByRole("alert").innerText()).toMatch(/Damaged[\s\S]*(?:2825792|2826776|2827968)/);
      expect(await page.locator(".figures").first().innerText()).toMatch(/1\.50 MB[\s\S]*39/);
      await visit.tab("Tensors");
      await page.getByRole("searchbox").fill("norm");
      await page.getByRole("row", { name: /model\.norm\.weight/ }).click();
      await page.getByRole("heading", { name: "model.norm.weight" }).waitFor();
      await visit.tab("Layout");
      await page.getByRole("heading", { name: /the last 1\.3\d MB are missing/ }).waitFor();
      await page.getByRole("grid", { name: "Runs of the file" }).press("End");
      await page.locator(".runs .damaged").first().waitFor();
      await page.getByRole("button", { name: "Verify" }).click();
      await page.getByText("Damaged: one fault.").waitFor();
      await page.locator(".runs .damaged").first().waitFor();
      await visit.tab("Bytes");
      await page.getByText(/of 1.500.000 bytes/).waitFor();
      visit.calm();
      await visit.close();
    },
  );

  it("an address that cannot be opened says why and offers to open something else", async () => {
    const visit = await viewer().visit();
    const { page } = visit;
    await page.goto(`${viewer().url}#url=nothing.gguf`);
    await page.getByRole("alert").waitFor();
    expect(await page.getByRole("alert").innerText()).toContain("404");
    await page.getByRole("button", { name: "Open another" }).click();
    await page.getByRole("heading", { name: "What is in this file?" }).waitFor();
    await visit.close();
  });

  it("one part of a set alone says what is missing", async () => {
    const visit = await viewer().visit();
    await visit.choose(models.path("demo.aeroset.json"));
    const alert = visit.page.getByRole("alert");
    await alert.waitFor();
    expect(await alert.innerText()).toMatch(/Something is missing[\s\S]*demo-index\.aero/);
    await visit.tab("Bytes");
    await visit.page.locator(".hex-line").first().waitFor();
    visit.calm();
    await visit.close();
  });

  it("a link opens an address by ranges, at its tensor, and nothing else may be reached", async () => {
    const requests: string[] = [];
    const server = await serveDirectory(models.folder, {
      port: 0,
      cors: ["*"],
      onRequest: ({ target }) => requests.push(target),
    });
    try {
      const visit = await viewer().visit();
      const { page } = visit;
      const link = `${viewer().url}#url=${server.url}/demo.aeroset.json&tensor=model.norm.weight`;
      await page.goto(link);
      await page.getByRole("heading", { name: "model.norm.weight" }).waitFor();
      const opening = requests.length;
      expect(opening).toBeLessThanOrEqual(4);
      // The page's own policy, which the reader inherits, allows that folder of that server alone.
      const reach = (address: string): Promise<string> =>
        fetch(address).then(
          () => "allowed",
          () => "refused",
        );
      const elsewhere = `${viewer().url}reader.js`;
      expect(await page.evaluate(reach, elsewhere)).toBe("refused");
      const [reader] = page.workers();
      expect(await reader?.evaluate(reach, elsewhere)).toBe("refused");
      expect(await reader?.evaluate(reach, `${server.url}/demo.aeroset.json`)).toBe("allowed");
      await visit.close();
    } finally {
      await server.close(0);
    }
  });

  it("a server that redirects to another one: which is told, and a button allows it", async () => {
    const target = await serveDirectory(models.folder, { port: 0, cors: ["*"] });
    // The same machine by another name: another origin.
    const elsewhere = target.url.replace("127.0.0.1", "localhost");
    const asked: string[] = [];
    const server = createServer(({ url = "" }, response) => {
      asked.push(url);
      const headers = { location: `${elsewhere}${url}`, "access-control-allow-origin": "*" };
      response.writeHead(302, headers).end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    try {
      const visit = await viewer().visit();
      const { page } = visit;
      await page.goto(`${viewer().url}#url=http://127.0.0.1:${port}/demo.gguf&view=tensors`);
      await page.getByRole("alert").waitFor();
      expect(await page.getByRole("alert").innerText()).toContain("redirects to another one");
      // One request that fails, and one that asks where it leads: no tries that cannot succeed.
      await page.getByRole("button", { name: `Allow ${new URL(elsewhere).host}` }).waitFor();
      expect(asked).toEqual(["/demo.gguf", "/demo.gguf"]);
      await page.getByRole("button", { name: `Allow ${new URL(elsewhere).host}` }).click();
      await page.getByRole("grid").waitFor();
      expect(new URL(page.url()).hash).toContain(`allow=${elsewhere}`);
      expect(new URL(page.url()).hash).toContain("view=tensors");
      await visit.close();
    } finally {
      server.close();
      await target.close(0);
    }
  });

  it("tare serve has the viewer at / with its models to click, each with a link of its own", async () => {
    const server = await serveDirectory(models.folder, { port: 0 });
    try {
      const visit = await viewer().visit();
      const { page } = visit;
      await page.goto(`${server.url}/`);
      await page.getByRole("link", { name: "demo.gguf" }).click();
      await page.getByRole("heading", { name: "tare demo" }).waitFor();
      expect(page.url()).toBe(`${server.url}/#url=/demo.gguf`);
      expect(await page.locator("main").innerText()).toMatch(/in 1 request\./);
      visit.calm();
      await visit.close();
    } finally {
      await server.close(0);
    }
  });

  it("a link compares two addresses", async () => {
    const server = await serveDirectory(models.folder, { port: 0, cors: ["*"] });
    try {
      const visit = await viewer().visit();
      const link = `#url=${server.url}/demo.gguf&view=compare&with=${server.url}/demo.apr`;
      await visit.page.goto(viewer().url + link);
      await visit.page.getByText("Everything that has a name is the same in both.").waitFor();
      visit.calm();
      await visit.close();
    } finally {
      await server.close(0);
    }
  });

  it("an address that is not there is told as such", async () => {
    const server = await serveDirectory(models.folder, { port: 0, cors: ["*"] });
    try {
      const visit = await viewer().visit();
      await visit.page.goto(`${viewer().url}#url=${server.url}/nothing.gguf`);
      const alert = visit.page.getByRole("alert");
      await alert.waitFor();
      expect(await alert.innerText()).toContain("source/not-found");
      await visit.close();
    } finally {
      await server.close(0);
    }
  });

  it("from a folder the page says why not and what to type", async () => {
    const visit = await viewer().visit();
    await visit.page.goto(new URL("../../dist/viewer/index.html", import.meta.url).href);
    const text = await visit.page.locator("body").innerText();
    expect(text).toContain("needs a web server");
    expect(text).toContain("tare view MODEL");
    await visit.close();
  });
});
