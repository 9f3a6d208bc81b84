import { addCases } from "./cases.ts";
import { addDeliveries } from "./deliveries.ts";
import { Kit } from "./kit.ts";
import { addTransport } from "./transport.ts";

/** The generated files of `conformance/`, by path. */
export function conformanceFiles(): Readonly<Record<string, string>> {
  const kit = new Kit();
  addDeliveries(kit);
  addCases(kit);
  addTransport(kit);
  return kit.files();
}
