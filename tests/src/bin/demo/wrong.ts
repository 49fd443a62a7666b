import { orders } from "rewind:tools";

export default async function main() {
  const open = orders.list_orders({ status: "opened" });
  return orders.send_mail({ to: open.orders[0].email });
}
