import { bench } from "rewind:tools";

export default async function main({ calls }: { calls: number }) {
  for (let n = 0; n < calls; n++) await bench.echo({ n });
  return calls;
}
