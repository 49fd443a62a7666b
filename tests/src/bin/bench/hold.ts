import { host } from "rewind:tools";

export default async function main({ calls, hold }: { calls: number; hold: number }) {
  for (let n = 0; n < calls; n++) await host.hold({ ms: hold });
  return calls;
}
