declare module "parse-prometheus-text-format" {
  interface Metric {
    readonly name: string;
    readonly metrics: readonly {
      readonly value: string;
      readonly labels?: Readonly<Record<string, string>>;
    }[];
  }
  export default function parse(text: string): readonly Metric[];
}
