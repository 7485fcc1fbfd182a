import { describe, expect, it } from "vitest";
import { describe as words } from "../src/faults";

describe("active faults", () => {
  const fault = (kind: string, other: object = {}) => words({ kind, id: 1, one_in: 1, parameter: 0, remaining: 0, ...other });

  it("say what fails, where, how often and until when", () => {
    expect(fault("lost-write", { one_in: 1000 })).toBe("Lost writes, set 1, one operation in 1,000");
    expect(fault("uncorrectable", { remaining: 3 })).toBe("Uncorrectable reads, set 1, the next 3 operations");
    expect(fault("stuck-die", { parameter: 2 })).toBe("Stuck die, set 1, die 2");
    expect(fault("port-down", { remaining: 250 })).toBe("Port down, port 1, back in 250 ms");
    expect(fault("power-cut", { id: 0, remaining: 9 })).toBe("Planned power cut, after 9 operations");
    expect(fault("host-disk-full", { id: 0 })).toBe("Host's disk full");
    expect(fault("meteor")).toBe("meteor, set 1");
  });
});
