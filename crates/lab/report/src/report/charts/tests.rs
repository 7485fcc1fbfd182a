use super::*;

/// A box in the coordinates of the image: left, top, right, bottom.
type Corners = [f64; 4];

fn attribute(element: &str, name: &str) -> f64 {
    let from = element.find(&format!(" {name}=\"")).unwrap_or_else(|| panic!("{name} in {element}"))
        + name.len()
        + 3;
    element[from..].split('"').next().unwrap().parse().unwrap()
}

/// Elements of a kind, each up to the next one.
fn elements<'a>(svg: &'a str, kind: &str) -> Vec<&'a str> {
    let start = format!("<{kind} ");
    svg.match_indices(&start).map(|(at, _)| svg[at..].split_inclusive("/>").next().unwrap()).collect()
}

/// Texts with the boxes they take, by the width of the widest common font.
fn texts(svg: &str) -> Vec<(String, Corners)> {
    let parts = svg.split("<text ").skip(1);
    parts
        .filter(|part| !part.contains("rotate"))
        .map(|part| {
            let part = format!(" {part}");
            let text = part.split_once('>').unwrap().1.split("</text>").next().unwrap().trim().to_owned();
            let (x, y) = (attribute(&part, "x"), attribute(&part, "y"));
            let size = attribute(&part, "font-size");
            let wide = frame::real(text.chars().count()) * size * 0.55;
            let left = match () {
                () if part.contains("text-anchor=\"middle\"") => x - wide / 2.0,
                () if part.contains("text-anchor=\"end\"") => x - wide,
                () => x,
            };
            (text, [left, y - size * 0.8, left + wide, y + size * 0.2])
        })
        .collect()
}

fn overlap(a: Corners, b: Corners) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

/// Filled boxes: bars, and the marks of bars in the legend.
fn boxes(svg: &str, colour: &str) -> Vec<Corners> {
    let of = |element: &&str| element.contains(&format!("fill=\"{colour}\""));
    elements(svg, "rect")
        .into_iter()
        .filter(of)
        .map(|element| {
            let [x, y, wide, high] = ["x", "y", "width", "height"].map(|name| attribute(element, name));
            [x, y, x + wide, y + high]
        })
        .collect()
}

/// Where the plot begins: the highest line of its grid.
fn top_of_plot(svg: &str) -> f64 {
    let lines = elements(svg, "line").into_iter().filter(|line| line.contains("#e5e7eb"));
    lines.map(|line| attribute(line, "y1")).fold(f64::INFINITY, f64::min)
}

fn labels(log: bool) -> Labels {
    Labels { title: "Throughput <&>".into(), y: "tpmC".into(), x: "connections".into(), log }
}

const NAMES: [&str; 6] = ["nand", "dram", "nand, published", "dram, published", "persistent memory", "a<b"];
const COLOURS: [&str; 6] = ["#c2410c", "#2563eb", "#fdba74", "#93c5fd", "#059669", "#7c3aed"];

fn series<T>(values: impl Fn(usize) -> Vec<Option<T>>) -> Vec<Data<T>> {
    let all = NAMES.iter().zip(COLOURS).enumerate();
    all.map(|(at, (name, colour))| Data {
        name: (*name).to_owned(),
        colour,
        dashed: at % 2 == 1,
        values: values(at),
    })
    .collect()
}

fn categories<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

/// Charts of all kinds, as reports have them.
fn charts() -> Vec<(&'static str, String)> {
    let bar = |value: f64| Some(Bar { value, spread: Some((value * 0.9, value * 1.1)) });
    let plain = |value: f64| Some(Bar { value, spread: None });
    let three = categories(["8 threads", "16 threads", "64 threads"]);
    let spread = series(|at| vec![bar(3017.0 + 400.0 * frame::real(at)), None, bar(5000.0)]);
    let long = categories(["new order", "payment", "order status", "delivery", "stock level", "commit"]);
    let amounts = series(|at| vec![plain(0.3 + frame::real(at)); 6]);
    let grid: Vec<String> = (0..60).map(|n| (n * 7).to_string()).collect();
    let over_time = series(|at| (0..60).map(|n| Some(1e6 + 3e4 * frame::real(n * (at + 1)))).collect());
    let gain = series(|at| vec![Some(-7.3 * frame::real(at)), None, Some(31.0)]);
    let single = series(|at| vec![None, Some(12.5 + frame::real(at)), None]);
    let mixed = series(|at| vec![Some(0.3), (at != 1).then_some(3.0), (at != 1).then_some(210.0)]);
    let [linear, log] = [labels(false), labels(true)];
    let one = |data: Vec<Data<Bar>>| -> Vec<Data<Bar>> {
        data.into_iter().map(|d| Data { values: d.values[..1].to_vec(), ..d }).collect()
    };
    vec![
        ("spread", bars(&linear, &three, &spread)),
        ("values", bars(&linear, &long, &amounts)),
        ("one-category", bars(&linear, &categories([""]), &one(spread.clone()))),
        ("log-bars", bars(&log, &long, &amounts)),
        ("over-time", lines(&linear, &grid, &over_time, false)),
        ("gain", lines(&linear, &three, &gain, true)),
        ("single", lines(&linear, &three, &single, true)),
        ("mixed-log", lines(&log, &three, &mixed, true)),
        ("nothing", lines(&linear, &three, &series(|_| vec![None; 3]), true)),
    ]
}

#[test]
fn ticks_are_round_numbers() {
    for (name, svg) in charts() {
        let ticks: Vec<f64> = texts(&svg)
            .into_iter()
            .filter(|(_, place)| place[2] < 72.0 && place[1] > top_of_plot(&svg) - 12.0)
            .filter_map(|(text, _)| {
                let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
                let unit = match unit {
                    "" => 1.0,
                    "M" => 1e6,
                    _ => return None,
                };
                Some(number.replace(',', "").parse::<f64>().ok()? * unit)
            })
            .collect();
        assert!((3..=9).contains(&ticks.len()), "{name}: {ticks:?}");
        let mut sorted = ticks.clone();
        sorted.sort_by(f64::total_cmp);
        let step = sorted[1] - sorted[0];
        let round = |n: f64| {
            let digit = n.abs() / 10f64.powf((n.abs().log10() + 1e-9).floor());
            [1.0, 2.0, 5.0].iter().any(|round| (digit - round).abs() < 1e-6)
        };
        let even = round(step) && sorted.windows(2).all(|two| (two[1] - two[0] - step).abs() < step * 1e-6);
        assert!(even || sorted.iter().all(|tick| round(*tick)), "{name}: {sorted:?}");
    }
}

#[test]
fn nothing_covers_the_legend_and_texts_keep_apart() {
    for (name, svg) in charts() {
        let top = top_of_plot(&svg);
        let texts = texts(&svg);
        let legend: Vec<_> = texts.iter().filter(|(_, place)| place[3] < top).collect();
        for (text, place) in &texts {
            assert!(place[0] >= 0.0 && place[2] <= 622.0 && place[3] <= 342.0, "{name}: {text} at {place:?}");
        }
        let several = name != "one-category";
        assert_eq!(
            legend.len(),
            1 + if several { NAMES.len() } else { 0 },
            "{name}: the title and the series"
        );
        for colour in COLOURS {
            for drawn in boxes(&svg, colour) {
                let mark = drawn[3] < top;
                for (text, place) in &legend {
                    assert!(
                        !overlap(drawn, *place),
                        "{name}: {text} at {place:?} and {drawn:?}, a mark: {mark}"
                    );
                }
                assert!(mark || drawn[1] >= top - 1.0, "{name}: {drawn:?} reaches out of the plot");
            }
        }
        for (at, (one, a)) in texts.iter().enumerate() {
            for (other, b) in &texts[at + 1..] {
                assert!(!overlap(*a, *b), "{name}: {one:?} at {a:?} and {other:?} at {b:?}");
            }
        }
    }
}

#[test]
fn a_series_of_one_point_is_a_bar() {
    for (name, svg) in charts() {
        let shown = |colour: &str| {
            boxes(&svg, colour).into_iter().filter(|at| at[1] >= top_of_plot(&svg)).collect::<Vec<_>>()
        };
        let alone: &[&str] = match name {
            "single" => &COLOURS,
            "mixed-log" => &COLOURS[1..2],
            _ => continue,
        };
        for colour in COLOURS {
            let bars = shown(colour);
            assert_eq!(bars.len(), usize::from(alone.contains(&colour)), "{name}: {colour}");
            assert!(bars.iter().all(|at| at[2] - at[0] >= 5.0 && at[3] - at[1] >= 5.0), "{name}: {bars:?}");
        }
    }
}

#[test]
fn charts_name_every_series_escaped() {
    let all = charts();
    for (name, svg) in &all {
        assert!(svg.starts_with("<svg") && svg.contains("Throughput &lt;&amp;&gt;"), "{name}");
        assert!(svg.contains("a&lt;b"), "{name}");
        let upwards = svg.split("<text ").find(|part| part.contains("rotate(-90")).unwrap_or_default();
        assert!(upwards.contains("tpmC"), "{name}: the title of the y axis");
        // Below an axis a name may have two lines.
        assert!(NAMES[..5].iter().flat_map(|name| name.split(' ')).all(|word| svg.contains(word)), "{name}");
    }
    // To be looked at.
    if let Some(dir) = std::env::var_os("TRANCHE_CHARTS") {
        let dir = std::path::PathBuf::from(dir);
        all.iter().for_each(|(name, svg)| std::fs::write(dir.join(format!("{name}.svg")), svg).unwrap());
    }
}
