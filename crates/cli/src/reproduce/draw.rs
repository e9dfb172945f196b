//! Charts as SVG, for the figures of reproduced experiments.
//!
//! Written by hand, because all it takes is lines, bars, axes and a legend, and because
//! the colours come from a style sheet inside the file that follows the reader's light or
//! dark background, which no plotting library could be told to do. Panels stand side by
//! side under one title and one legend. O(points).

use std::fmt::Write as _;

const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 300.0;
/// Around the plot itself: left for the numbers, top for titles, bottom for the axis.
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 76.0;
const BOTTOM: f64 = 46.0;
/// Colours that the style sheet has.
const COLOURS: usize = 6;

const STYLE: &str = "\
svg{--ink:#1f2328;--grid:#d8dee4;--paper:#fff}\
@media(prefers-color-scheme:dark){svg{--ink:#e6edf3;--grid:#3d444d;--paper:#0d1117}}\
.paper{fill:var(--paper)}.grid{stroke:var(--grid)}.axis{stroke:var(--ink)}\
text{fill:var(--ink);font:12px sans-serif}.title{font-weight:bold;font-size:14px}\
.end{text-anchor:end}.mid{text-anchor:middle}polyline{stroke-width:2}\
.c0{stroke:#1f77d0;fill:#1f77d0}.c1{stroke:#d55e00;fill:#d55e00}.c2{stroke:#0a9b72;fill:#0a9b72}\
.c3{stroke:#c264a0;fill:#c264a0}.c4{stroke:#a88500;fill:#a88500}.c5{stroke:#8a8f98;fill:#8a8f98}\
polyline.c1{stroke-dasharray:7 3}polyline.c2{stroke-dasharray:2 3}\
polyline.c3{stroke-dasharray:9 3 2 3}polyline.c4{stroke-dasharray:12 4}";

/// One name of the legend, and a value for each place on the horizontal axis.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// What is drawn in a panel.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Shape {
    /// A line through the points.
    Lines,
    /// Bars side by side; points are numbered from 0 by the groups that `labels` names.
    Bars,
}

/// One chart.
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) x_label: String,
    pub(super) y_label: String,
    pub(super) shape: Shape,
    /// Names of the groups of bars; of no use to lines.
    pub(super) labels: Vec<String>,
    /// Whether the vertical axis counts powers of ten.
    pub(super) logarithmic: bool,
    pub(super) series: Vec<Series>,
}

/// The panels as one SVG file, all of the same series.
pub(super) fn figure(title: &str, panels: &[Panel]) -> String {
    figures(title, &[panels])
}

/// Groups of panels as one SVG file. The panels of a group have the same series and one
/// legend above the first.
pub(super) fn figures(title: &str, groups: &[&[Panel]]) -> String {
    let count: usize = groups.iter().map(|group| group.len()).sum();
    let (width, height) = (WIDTH * count.max(1) as f64, HEIGHT);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n\
         <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n",
        title = escaped(title),
    );
    text(&mut svg, "title", 12.0, 20.0, title);
    let mut left = 0.0;
    for group in groups {
        legend(&mut svg, group, left);
        for panel in *group {
            draw(&mut svg, panel, left);
            left += WIDTH;
        }
    }
    svg + "</svg>\n"
}

fn legend(svg: &mut String, panels: &[Panel], left: f64) {
    let mut x = left + 12.0;
    for (colour, series) in panels.first().iter().flat_map(|panel| &panel.series).enumerate() {
        let colour = colour % COLOURS;
        line(svg, &format!("c{colour}"), (x, 38.0), (x + 18.0, 38.0), 4);
        text(svg, "", x + 23.0, 42.0, &series.name);
        x += 40.0 + 6.7 * series.name.chars().count() as f64;
    }
}

/// Where values lie on the page.
struct Scale {
    lowest: f64,
    highest: f64,
    logarithmic: bool,
    start: f64,
    end: f64,
}

impl Scale {
    fn place(&self, value: f64) -> f64 {
        let of = |value: f64| if self.logarithmic { value.max(1e-9).log10() } else { value };
        let span = of(self.highest) - of(self.lowest);
        let share = if span > 0.0 { (of(value) - of(self.lowest)) / span } else { 0.5 };
        self.start + share * (self.end - self.start)
    }

    /// Round numbers within the scale: powers of ten, or steps of 1, 2 or 5.
    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let (first, last) = (self.lowest.log10().ceil(), self.highest.log10().floor());
            return (first as i32..=last as i32).map(|power| 10f64.powi(power)).collect();
        }
        let step = step(self.highest - self.lowest);
        let first = (self.lowest / step).ceil() as i64;
        let last = (self.highest / step + 1e-9).floor() as i64;
        (first..=last).map(|tick| tick as f64 * step).collect()
    }
}

/// A step of 1, 2 or 5 times a power of ten, of which a span has about five.
fn step(span: f64) -> f64 {
    let rough = (span / 5.0).max(1e-9);
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().find(|step| step * power >= rough).unwrap_or(10.0);
    step * power
}

fn draw(svg: &mut String, panel: &Panel, left: f64) {
    let values = || panel.series.iter().flat_map(|series| &series.points);
    let finite = |value: &f64| value.is_finite();
    let highest = values().map(|point| point.1).filter(finite).fold(0.0, f64::max).max(1e-6);
    let positive = values().map(|point| point.1).filter(|&value| finite(&value) && value > 0.0);
    let y = if panel.logarithmic {
        let lowest = positive.fold(highest, f64::min);
        (10f64.powf(lowest.log10().floor()), 10f64.powf(highest.log10().ceil()), true)
    } else {
        (0.0, highest * 1.05, false)
    };
    let y = Scale { lowest: y.0, highest: y.1, logarithmic: y.2, start: HEIGHT - BOTTOM, end: TOP };
    let ends = match panel.shape {
        Shape::Bars => (-0.5, panel.labels.len() as f64 - 0.5),
        Shape::Lines => values()
            .map(|point| point.0)
            .fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(x), high.max(x))),
    };
    let (start, end) = (left + LEFT, left + WIDTH - RIGHT);
    let x = Scale { lowest: ends.0, highest: ends.1, logarithmic: false, start, end };
    axes(svg, panel, &x, &y, left);
    for (number, series) in panel.series.iter().enumerate() {
        let points = series.points.iter().filter(|point| point.1.is_finite());
        let class = format!("c{}", number % COLOURS);
        match panel.shape {
            Shape::Lines => polyline(svg, &class, points.map(|&(a, b)| (x.place(a), y.place(b)))),
            Shape::Bars => {
                let each = 0.8 / panel.series.len() as f64;
                for &(group, value) in points {
                    let from = x.place(group - 0.4 + each * number as f64);
                    let to = x.place(group - 0.4 + each * (number + 1) as f64) - 1.0;
                    let (top, bottom) = (y.place(value), y.place(y.lowest));
                    let _ = writeln!(
                        svg,
                        "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{top:.1}\" \
                         width=\"{:.1}\" height=\"{:.1}\"/>",
                        (to - from).max(0.5),
                        (bottom - top).max(0.0),
                    );
                }
            }
        }
    }
}

fn axes(svg: &mut String, panel: &Panel, x: &Scale, y: &Scale, left: f64) {
    text(svg, "", left + 12.0, TOP - 11.0, &format!("{}: {}", panel.title, panel.y_label));
    for tick in y.ticks() {
        let at = y.place(tick);
        line(svg, "grid", (x.start, at), (x.end, at), 1);
        text(svg, "end", x.start - 6.0, at + 4.0, &number(tick));
    }
    line(svg, "axis", (x.start, y.start), (x.end, y.start), 1);
    let marks: Vec<(f64, String)> = match panel.shape {
        Shape::Bars => {
            panel.labels.iter().enumerate().map(|(at, label)| (at as f64, label.clone())).collect()
        }
        Shape::Lines => x.ticks().into_iter().map(|tick| (tick, number(tick))).collect(),
    };
    for (at, label) in marks {
        text(svg, "mid", x.place(at), y.start + 17.0, &label);
    }
    text(svg, "mid", (x.start + x.end) / 2.0, HEIGHT - 10.0, &panel.x_label);
}

fn polyline(svg: &mut String, class: &str, points: impl Iterator<Item = (f64, f64)>) {
    let points: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        svg,
        "<polyline class=\"{class}\" style=\"fill:none\" points=\"{}\"/>",
        points.join(" ")
    );
    // A dot a point, where there are few enough to be told apart.
    if points.len() <= 12 {
        for point in &points {
            if let Some((x, y)) = point.split_once(',') {
                let _ = writeln!(svg, "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"3\"/>");
            }
        }
    }
}

fn line(svg: &mut String, class: &str, from: (f64, f64), to: (f64, f64), width: u32) {
    let _ = writeln!(
        svg,
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" \
         stroke-width=\"{width}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text(svg: &mut String, class: &str, x: f64, y: f64, text: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let _ = writeln!(svg, "<text{class} x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(text));
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A tick in as few digits as it has.
fn number(value: f64) -> String {
    let rounded = (value * 1e6).round() / 1e6;
    if rounded >= 1e6 {
        format!("{}M", rounded / 1e6)
    } else if rounded >= 1e4 {
        format!("{}k", rounded / 1e3)
    } else {
        format!("{rounded}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        let scale = |lowest, highest, logarithmic| Scale {
            lowest,
            highest,
            logarithmic,
            start: 0.0,
            end: 100.0,
        };
        assert_eq!(scale(0.0, 10.5, false).ticks(), [0.0, 5.0, 10.0]);
        assert_eq!(scale(1.0, 8.0, false).ticks(), [2.0, 4.0, 6.0, 8.0]);
        assert_eq!(scale(10.0, 1000.0, true).ticks(), [10.0, 100.0, 1000.0]);
        assert_eq!(scale(10.0, 1000.0, true).place(100.0), 50.0);
        assert_eq!(scale(5.0, 5.0, false).place(5.0), 50.0);
    }

    #[test]
    fn text_cannot_break_out_and_what_is_no_number_is_left_out() {
        let series = |name: &str, points| Series { name: name.to_owned(), points };
        let panel = |shape, logarithmic| Panel {
            title: "<a & b>".to_owned(),
            x_label: String::new(),
            y_label: String::new(),
            shape,
            labels: vec!["\"one\"".to_owned()],
            logarithmic,
            series: vec![series("x", vec![(0.0, f64::NAN), (1.0, 2.0)]), series("y", vec![])],
        };
        let svg = figure("<t>", &[panel(Shape::Lines, true), panel(Shape::Bars, false)]);
        assert!(svg.contains("&lt;a &amp; b&gt;") && svg.contains("&quot;one&quot;"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 1);
    }
}
