import { isIPv4, isIPv6 } from "node:net";
import { compilePattern } from "./pattern.ts";

const patterns: Readonly<Record<string, string>> = {
  date: "^\\d{4}-\\d{2}-\\d{2}$",
  time: "^([01]\\d|2[0-3]):[0-5]\\d:([0-5]\\d|60)(\\.\\d+)?([Zz]|[+-]([01]\\d|2[0-3]):[0-5]\\d)$",
  email:
    '^[^\\s@."]+(\\.[^\\s@."]+)*@[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$',
  hostname: "^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$",
  uuid: "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
  duration: "^P(\\d+W|(\\d+Y)?(\\d+M)?(\\d+D)?(T(\\d+H)?(\\d+M)?(\\d+(\\.\\d+)?S)?)?)$",
};

/** Whether a text matches a pattern, which is compiled when it is first needed. */
function pattern(name: string): (text: string) => boolean {
  let compiled: ReturnType<typeof compilePattern> | undefined;
  return (text) => {
    compiled ??= compilePattern(patterns[name] as string);
    return text.length <= 1_000 && compiled.test(text);
  };
}

const hasDateForm = pattern("date");
const hasDurationForm = pattern("duration");
const isTime = pattern("time");

function isDate(text: string): boolean {
  if (!hasDateForm(text)) return false;
  const time = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(time.getTime()) && time.toISOString().startsWith(text);
}

/** The formats of JSON Schema that are checked, each in linear time; any other format only describes. */
export const formatTests: Readonly<Record<string, (text: string) => boolean>> = Object.assign(
  Object.create(null) as object,
  {
    date: isDate,
    time: isTime,
    "date-time": (text: string) =>
      /^[Tt\s]$/.test(text[10] ?? "") && isDate(text.slice(0, 10)) && isTime(text.slice(11)),
    duration: (text: string) => hasDurationForm(text) && /\d/.test(text) && !text.endsWith("T"),
    email: pattern("email"),
    hostname: pattern("hostname"),
    ipv4: isIPv4,
    ipv6: isIPv6,
    uri: (text: string) => /^[A-Za-z][A-Za-z0-9+.-]{0,100}:/.test(text) && URL.canParse(text),
    uuid: pattern("uuid"),
  },
);
