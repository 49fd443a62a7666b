import { everything, host, orders, sleep } from "rewind:tools";

export default async function main(input: { customer: string }) {
  // Three calls at once: one journal entry, three requests.
  const [open, sum, greeting] = await Promise.all([
    orders.list_orders({ status: "open" }),
    everything["get-sum"]({ a: 20, b: 22 }),
    everything.echo({ message: `hello, ${input.customer}` }),
  ]);
  const mine = open.orders.find((order) => order.customer === input.customer);
  if (!mine) throw new Error(`no open order of ${input.customer}`);

  const order = await host.lookup_order({ order_id: mine.id });
  // The bank takes two seconds. The node will not live to see the answer.
  const refund = await host.refund({ order_id: mine.id, amount_cents: order.total_cents });
  console.log(`refunded ${refund.amount_cents} cents as ${refund.refund_id}`);

  await sleep("3s");
  const mail = await orders.send_email({
    to: mine.email,
    subject: `Refund ${refund.refund_id}`,
    body: `${refund.amount_cents} cents are on their way.`,
  });
  return { order: order.order_id, refund, mail, sum, greeting };
}
