import { describe, expect, it } from "vitest";
import { limitAt, placeOf, STEPS } from "../src/slider";
import { bytes, count, exampleSize, parseCount, parseRate, parseSize, rate, time } from "../src/units";

describe("units", () => {
  it("writes three digits and the unit that fits", () => {
    expect(bytes(0)).toBe("0 B");
    expect(bytes(1536)).toBe("1.5 KiB");
    expect(bytes(1024 ** 3 - 1)).toBe("1 GiB");
    expect(rate(123_456_789)).toBe("123 MB/s");
    expect(count(999.7)).toBe("1 k");
    expect(time(85_400)).toBe("85.4 µs");
  });

  it("reads what people write, and nothing else", () => {
    expect(parseSize("4 GiB")).toBe(4 * 1024 ** 3);
    expect(parseSize("4G")).toBe(4 * 1024 ** 3);
    expect(parseSize("4GB")).toBe(4e9);
    expect(parseSize("512")).toBe(512);
    expect(parseRate("200 MB/s")).toBe(2e8);
    expect(parseRate("1.5G")).toBe(1.5e9);
    expect(parseCount("5k")).toBe(5000);
    expect(parseCount("1,200")).toBe(1200);
    for (const wrong of ["", "fast", "-1", "4 GiBs", "1e9", "5 5"]) {
      expect(parseSize(wrong)).toBeNull();
      expect(parseRate(wrong)).toBeNull();
      expect(parseCount(wrong)).toBeNull();
    }
  });

  it("gives an example of a size that fits", () => {
    const mib = 1024 ** 2;
    expect(exampleSize(80 * mib, 4096)).toBe("64 MiB");
    expect(exampleSize(900 * 1024 * mib, 4096)).toBe("4 GiB");
    expect(exampleSize(2 * mib, 512)).toBe("2 MiB");
    // Zones of 24 MiB.
    expect(exampleSize(72 * mib, 24 * mib)).toBe("24 MiB");
  });

  it("reads what it writes", () => {
    for (let power = 13; power < 40; power += 1) {
      expect(parseRate(rate(Math.round(1.7 ** power)))).toBeGreaterThan(0);
      expect(parseSize(bytes(2 ** power))).toBe(2 ** power);
    }
  });
});

describe("sliders", () => {
  const range = { least: 1e6, most: 1e10 };
  const commands = { least: 10, most: 1e7 };

  it("go from the least to the most, and then to no limit", () => {
    expect(limitAt(0, range)).toBe(1e6);
    expect(limitAt(STEPS - 1, range)).toBe(1e10);
    expect(limitAt(STEPS, range)).toBe(0);
    for (const each of [range, commands]) for (let place = 1; place < STEPS; place += 1) expect(limitAt(place, each)).toBeGreaterThan(limitAt(place - 1, each));
  });

  it("stay where they were put", () => {
    for (const each of [range, commands]) for (let place = 0; place <= STEPS; place += 1) expect(placeOf(limitAt(place, each), each)).toBe(place);
  });

  it("show limits beyond their ends at the ends", () => {
    expect(placeOf(1e12, range)).toBe(STEPS - 1);
    expect(placeOf(4096, range)).toBe(0);
    expect(placeOf(0, range)).toBe(STEPS);
  });
});
