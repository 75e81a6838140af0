import { commandText, nodeCommand, runCapturing, timeRun } from "../child.ts";
import { expectText, shortNames } from "../expect.ts";
import { type BenchContext, type Job, type JobResult, milliseconds, type Row } from "../job.ts";
import { makeSparseApr } from "../make/apr-sparse.ts";
import { repeat } from "../measure.ts";
import { RangeServer } from "../serve.ts";

/** How many bytes beyond the metadata one request may fetch. */
const BEYOND = 64 << 10;

/** Inspects a remote APR of 10 GB. Its metadata comes first, so little else needs to be fetched. */
export const inspectAprHttp: Job = {
  name: "inspect-apr-http",
  title: "metadata of a remote APR of 10 GB",
  run: runInspectApr,
};

async function runInspectApr({ workspace, runs, tare, root }: BenchContext): Promise<JobResult> {
  let metadataBytes = 0;
  const file = await workspace.file("sparse.apr", async (path) => {
    ({ metadataBytes } = await makeSparseApr(path));
  });
  const server = await RangeServer.start(file);
  try {
    const ours = nodeCommand(tare, "inspect", server.url);
    expectText((await runCapturing(ours)).stdout, ["320 tensors"]);
    await server.take();
    await runCapturing(ours);
    const { requests, bytes } = await server.take();
    const rows: Row[] = [
      { job: inspectAprHttp.name, measure: "requests", ours: String(requests), goal: "≤ 1", met: requests <= 1 },
      {
        job: inspectAprHttp.name,
        measure: "bytes sent beyond the metadata",
        ours: `${bytes - metadataBytes}`,
        goal: `≤ ${BEYOND}`,
        met: bytes - metadataBytes <= BEYOND,
      },
      {
        job: inspectAprHttp.name,
        measure: "wall time with Node's start",
        ours: milliseconds(await repeat(runs, () => timeRun(ours))),
      },
    ];
    const short = [...shortNames(root, workspace), [server.url, "http://127.0.0.1:PORT/sparse.apr"] as const];
    return { rows, commands: [commandText(ours, short)] };
  } finally {
    await server.stop();
    await workspace.discard("sparse.apr");
  }
}
