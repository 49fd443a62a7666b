import { host } from "rewind:tools";

/** Calls one after the other, and then some more. */
export default async function main(input: { calls: number; more: number }) {
  for (let n = 0; n < input.calls + input.more; n++) await host.echo({ n });
  return input.calls;
}
