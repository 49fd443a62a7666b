import { host } from "rewind:tools";

export default async function main({ calls, hold }: { calls: number; hold: number }) {
  for (let n = 0; n < calls; n++) await host.echo({ n });
  // Long enough to leave memory. The answer wakes the run, which has to come back to this very place.
  await host.hold({ ms: hold });
  await host.echo({ n: calls });
  return calls;
}
