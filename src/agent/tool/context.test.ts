import { describe, expect, expectTypeOf, it } from "vitest";
import { ContextStore, layerContext } from "./context.ts";

class Database {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}
class Replica extends Database {}
abstract class Shape {
  abstract area(): number;
}
class Square extends Shape {
  area() {
    return 4;
  }
}

describe("a context store", () => {
  const main = new Database("main");

  it("finds values by key, by type, and by key and type", () => {
    const store = new ContextStore({ db: main, region: "eu" });
    expect(store.get("region")).toBe("eu");
    expect(store.get("db")).toBe(main);
    expect(store.get(Database)).toBe(main);
    expect(store.get("db", Database)).toBe(main);
    expect(store.get("region", Database)).toBeUndefined();
    expect(store.get("none")).toBeUndefined();
    expect(store.get(Replica)).toBeUndefined();
  });

  it("never changes", () => {
    const store = new ContextStore();
    const more = store.with(main).with("region", "eu");
    expect(store.get(Database)).toBeUndefined();
    expect(store.get("region")).toBeUndefined();
    expect(more.get(Database)).toBe(main);
    expect(more.get("region")).toBe("eu");
  });

  it("does not see what its source becomes", () => {
    const values: Record<string, unknown> = { region: "eu" };
    const store = new ContextStore(values);
    values.region = "us";
    expect(store.get("region")).toBe("eu");
  });

  it("gives the newest, and one of the very class before one that extends it", () => {
    const other = new Database("other");
    expect(new ContextStore().with(main).with(other).get(Database)).toBe(other);
    expect(new ContextStore().with(main).with(new Replica("r")).get(Database)).toBe(main);
    const replica = new Replica("r");
    expect(new ContextStore().with(replica).get(Database)).toBe(replica);
  });

  it("forgets a value whose key got another one", () => {
    const store = new ContextStore({ db: main }).with("db", "closed");
    expect(store.get(Database)).toBeUndefined();
    expect(store.get("db")).toBe("closed");
  });

  it("has no values that nobody gave", () => {
    for (const key of ["constructor", "__proto__", "toString", "with", "get"]) {
      expect(new ContextStore({}).get(key)).toBeUndefined();
    }
  });

  it("knows the type of what it gives", () => {
    const store = new ContextStore();
    expectTypeOf(store.get(Database)).toEqualTypeOf<Database | undefined>();
    expectTypeOf(store.get("db", Database)).toEqualTypeOf<Database | undefined>();
    expectTypeOf(store.get(Shape)).toEqualTypeOf<Shape | undefined>();
    expectTypeOf(store.get("x")).toEqualTypeOf<unknown>();
    expect(new ContextStore().with(new Square()).get(Shape)?.area()).toBe(4);
  });
});

describe("layers", () => {
  const call = { user: "ann" };
  const agent = new ContextStore({ user: "bob", region: "eu" }).with(new Database("agent"));
  const toolkit = { user: "carl", region: "us", unit: "C", db: new Database("toolkit") };
  const context = layerContext(call, agent, toolkit);

  it("the call's beats the agent's beats the toolkit's", () => {
    expect(context.get("user")).toBe("ann");
    expect(context.get("region")).toBe("eu");
    expect(context.get("unit")).toBe("C");
    expect(context.get(Database)?.name).toBe("agent");
    expect(context.get("none")).toBeUndefined();
  });

  it("a value of another type does not hide one that fits", () => {
    expect(layerContext({ db: "text" }, toolkit).get("db", Database)?.name).toBe("toolkit");
  });

  it("may be missing, or anything that can look up", () => {
    const lookup = { get: () => "found" as never };
    expect(layerContext(undefined, lookup).get("x")).toBe("found");
    expect(layerContext().get("x")).toBeUndefined();
  });
});
