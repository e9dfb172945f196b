//! Charts as SVG: figures of reproduced experiments, and of advice.
//!
//! Written by hand: charts need only lines, bars, axes and a legend. The colours come from a style
//! sheet inside the file that follows the reader's light or dark background, which no plotting
//! library supports. Panels stand side by side under one title and one legend. O(points).

mod labels;

use std::fmt::Write as _;

const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 300.0;
/// Margins of the plot: left for the numbers, top for titles, bottom for the axis.
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 76.0;
const BOTTOM: f64 = 46.0;
/// A row of the legend.
const ROW: f64 = 18.0;
/// From the end of a line to its name.
const LEAD: f64 = 16.0;

/// Each has a contrast of 3 or more with a white and with a dark page.
const COLOURS: [&str; 10] = [
    "#1f77d0", "#d55e00", "#0a9b72", "#c264a0", "#a88500", "#868b94", "#d0312d", "#8b5cd6",
    "#0891b2", "#8f5a3c",
];

const STYLE: &str = "\
svg{--ink:#1f2328;--grid:#d8dee4;--paper:#fff}\
@media(prefers-color-scheme:dark){svg{--ink:#e6edf3;--grid:#3d444d;--paper:#0d1117}}\
.paper{fill:var(--paper)}.grid{stroke:var(--grid)}.axis{stroke:var(--ink)}\
text{fill:var(--ink);font:12px sans-serif}.title{font-weight:bold;font-size:14px}\
.mark{stroke:var(--ink);stroke-dasharray:3 3}.lead{stroke-width:1;stroke-opacity:.6}\
.name{paint-order:stroke;stroke:var(--paper);stroke-width:4px}\
.end{text-anchor:end}.mid{text-anchor:middle}polyline{stroke-width:2}\
polyline.set{stroke-dasharray:6 3}rect.set{fill-opacity:.35}";

/// The look of a series, the same in every figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Look {
    /// Its number chooses one of ten colours and one of four markers.
    pub(crate) number: usize,
    /// Marked as different: a dashed line, a pale bar.
    pub(crate) apart: bool,
}

impl Look {
    fn class(self) -> String {
        let apart = if self.apart { " set" } else { "" };
        format!("c{}{apart}", self.number % COLOURS.len())
    }
}

/// One name of the legend, and a value for each place on the horizontal axis.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) look: Look,
    pub(crate) points: Vec<(f64, f64)>,
}

/// The content of a panel.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    /// A line through the points.
    Lines,
    // Of experiments only.
    #[cfg_attr(not(feature = "full"), allow(dead_code))]
    /// Bars side by side; points are numbered from 0 by the groups that `labels` names.
    Bars,
}

/// One chart.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    pub(crate) shape: Shape,
    /// Names of the groups of bars; unused for lines.
    pub(crate) labels: Vec<String>,
    /// Whether the horizontal axis is logarithmic.
    pub(crate) logarithmic_x: bool,
    /// Whether the vertical axis is.
    pub(crate) logarithmic: bool,
    /// Vertical lines with names, in order of place.
    pub(crate) marks: Vec<(f64, String)>,
    /// Whether names of lines are at their ends, not in a legend; a line without a name has none.
    pub(crate) named_at_ends: bool,
    pub(crate) series: Vec<Series>,
}

impl Panel {
    /// The right end of the plot, before the names of its lines.
    fn right(&self) -> f64 {
        let names = self.series.iter().map(|series| labels::width(&series.name));
        let widest = names.fold(0.0, f64::max);
        WIDTH - RIGHT - if self.named_at_ends && widest > 0.0 { widest + LEAD } else { 0.0 }
    }
}

/// A panel of lines.
pub(crate) fn lines(title: impl Into<String>, x: &str, y: &str, series: Vec<Series>) -> Panel {
    Panel {
        title: title.into(),
        x_label: x.to_owned(),
        y_label: y.to_owned(),
        shape: Shape::Lines,
        labels: Vec::new(),
        logarithmic_x: false,
        logarithmic: false,
        marks: Vec::new(),
        named_at_ends: false,
        series,
    }
}

/// The panels as one SVG file, all of the same series.
pub(crate) fn figure(title: &str, panels: &[Panel]) -> String {
    figures(title, &[panels])
}

/// Groups of panels as one SVG file. The panels of a group have the same series and one
/// legend above the first.
pub(crate) fn figures(title: &str, groups: &[&[Panel]]) -> String {
    let count: usize = groups.iter().map(|group| group.len()).sum();
    let legends: Vec<Legend> = groups.iter().map(|group| Legend::new(group)).collect();
    let rows = legends.iter().map(|legend| legend.rows).max().unwrap_or(1);
    let down = ROW * (rows - 1) as f64;
    let (width, height) = (WIDTH * count.max(1) as f64, HEIGHT + down);
    let mut svg = opened(title, width, height);
    let mut left = 0.0;
    for (group, legend) in groups.iter().zip(&legends) {
        shifted(&mut svg, (left, 0.0), |svg| legend.draw(svg, group));
        for panel in *group {
            shifted(&mut svg, (left, down), |svg| draw(svg, panel));
            left += WIDTH;
        }
    }
    svg + "</svg>\n"
}

/// Panels in rows of `columns`, without legends.
// Of experiments only.
#[cfg_attr(not(feature = "full"), allow(dead_code))]
pub(crate) fn grid(title: &str, panels: &[Panel], columns: usize) -> String {
    let columns = columns.max(1);
    let rows = panels.len().div_ceil(columns).max(1);
    let mut svg = opened(title, WIDTH * columns as f64, HEIGHT * rows as f64);
    for (at, panel) in panels.iter().enumerate() {
        let place = (WIDTH * (at % columns) as f64, HEIGHT * (at / columns) as f64);
        shifted(&mut svg, place, |svg| draw(svg, panel));
    }
    svg + "</svg>\n"
}

/// The beginning of a file.
fn opened(title: &str, width: f64, height: f64) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\">\n<title>{title}</title>\n\
         <style>{STYLE}{colours}</style>\n\
         <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n",
        title = escaped(title),
        colours = colours(),
    );
    text(&mut svg, "title", 12.0, 20.0, title);
    svg
}

fn colours() -> String {
    let class =
        |(number, colour): (usize, &&str)| format!(".c{number}{{stroke:{colour};fill:{colour}}}");
    COLOURS.iter().enumerate().map(class).collect()
}

/// Draws something elsewhere on the page.
fn shifted(svg: &mut String, (x, y): (f64, f64), draw: impl FnOnce(&mut String)) {
    let _ = writeln!(svg, "<g transform=\"translate({x:.0} {y:.0})\">");
    draw(svg);
    svg.push_str("</g>\n");
}

/// The places of the names of a group's series.
struct Legend {
    places: Vec<(f64, f64)>,
    rows: usize,
}

impl Legend {
    /// In rows as wide as the group.
    fn new(panels: &[Panel]) -> Self {
        let right = WIDTH * panels.len() as f64 - 12.0;
        let (mut x, mut rows) = (12.0, 1);
        let series = Self::series(panels);
        let place = |series: &Series| {
            let width = 48.0 + 6.7 * series.name.chars().count() as f64;
            if x + width > right && x > 12.0 {
                (x, rows) = (12.0, rows + 1);
            }
            x += width;
            (x - width, 20.0 + ROW * rows as f64)
        };
        Legend { places: series.map(place).collect(), rows }
    }

    /// Names in the legend: none if lines are named at their ends.
    fn series(panels: &[Panel]) -> impl Iterator<Item = &Series> {
        let first = panels.first().filter(|panel| !panel.named_at_ends);
        first.into_iter().flat_map(|panel| &panel.series)
    }

    fn draw(&self, svg: &mut String, panels: &[Panel]) {
        for (series, &(x, y)) in Self::series(panels).zip(&self.places) {
            polyline(svg, series.look, &[(x, y), (x + 26.0, y)]);
            marker(svg, series.look, (x + 13.0, y));
            text(svg, "", x + 31.0, y + 4.0, &series.name);
        }
    }
}

/// The mapping of values to places on the page.
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

    /// Round numbers within the scale: powers of ten, and 2 and 5 times those if there are few; or
    /// steps of 1, 2 or 5.
    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let of = |value: f64| value.max(1e-9).log10();
            let (first, last) = (of(self.lowest).floor() as i32, of(self.highest).floor() as i32);
            let times: &[f64] = if last - first <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let all =
                (first..=last).flat_map(|power| times.iter().map(move |it| it * 10f64.powi(power)));
            let within = |tick: &f64| (self.lowest * 0.999..=self.highest * 1.001).contains(tick);
            return all.filter(within).collect();
        }
        let step = step(self.highest - self.lowest);
        let first = (self.lowest / step).ceil() as i64;
        let last = (self.highest / step + 1e-9).floor() as i64;
        (first..=last).map(|tick| tick as f64 * step).collect()
    }
}

/// A step of 1, 2 or 5 times a power of ten, about a fifth of the span.
fn step(span: f64) -> f64 {
    let rough = (span / 5.0).max(1e-9);
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().find(|step| step * power >= rough).unwrap_or(10.0);
    step * power
}

/// The horizontal and the vertical scale of a panel's values; the plot begins at `top`.
fn scales(panel: &Panel, top: f64) -> (Scale, Scale) {
    let values = || panel.series.iter().flat_map(|series| &series.points);
    let finite = |value: &f64| value.is_finite();
    let highest = values().map(|point| point.1).filter(finite).fold(0.0, f64::max).max(1e-6);
    let positive = values().map(|point| point.1).filter(|&value| finite(&value) && value > 0.0);
    let y = if panel.logarithmic {
        let lowest = positive.fold(highest, f64::min);
        (10f64.powf(lowest.log10().floor()), 10f64.powf(highest.log10().ceil()), true)
    } else {
        // Negative values are shown.
        let lowest = values().map(|point| point.1).filter(finite).fold(0.0, f64::min);
        (lowest * 1.05, highest * 1.05, false)
    };
    let y = Scale { lowest: y.0, highest: y.1, logarithmic: y.2, start: HEIGHT - BOTTOM, end: top };
    let ends = match panel.shape {
        Shape::Bars => (-0.5, panel.labels.len() as f64 - 0.5),
        Shape::Lines => values()
            .map(|point| point.0)
            .fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(x), high.max(x))),
    };
    let logarithmic = panel.logarithmic_x;
    let x = Scale { lowest: ends.0, highest: ends.1, logarithmic, start: LEFT, end: panel.right() };
    (x, y)
}

fn draw(svg: &mut String, panel: &Panel) {
    // The horizontal scale does not depend on the top of the plot.
    let marks = marks(panel, &scales(panel, TOP).0);
    let rows = marks.iter().map(|mark| mark.row + 1).max().unwrap_or(0);
    let top = TOP + labels::LINE * rows as f64;
    let (x, y) = scales(panel, top);
    axes(svg, panel, &x, &y);
    let base = |mark: &Mark<'_>| top - 5.0 - labels::LINE * mark.row as f64;
    for mark in &marks {
        line(svg, "mark", (mark.at, y.start), (mark.at, base(mark) + 3.0), 1);
    }
    // Above the lines, which may lead to a name of a higher row.
    for mark in &marks {
        text(svg, "name", mark.left, base(mark), mark.name);
    }
    if panel.named_at_ends {
        name_ends(svg, panel, &x, &y);
    }
    for (number, series) in panel.series.iter().enumerate() {
        let points = series.points.iter().filter(|point| point.1.is_finite());
        let look = series.look;
        match panel.shape {
            Shape::Lines => {
                let points: Vec<_> = points.map(|&(a, b)| (x.place(a), y.place(b))).collect();
                polyline(svg, look, &points);
                // Only if there are few enough to distinguish.
                if points.len() <= 12 {
                    points.iter().for_each(|&point| marker(svg, look, point));
                }
            }
            Shape::Bars => {
                let each = 0.8 / panel.series.len() as f64;
                for &(group, value) in points {
                    let from = x.place(group - 0.4 + each * number as f64);
                    let to = x.place(group - 0.4 + each * (number + 1) as f64) - 1.0;
                    let (top, bottom) = (y.place(value), y.place(y.lowest));
                    let _ = writeln!(
                        svg,
                        "<rect class=\"{}\" x=\"{from:.1}\" y=\"{top:.1}\" \
                         width=\"{:.1}\" height=\"{:.1}\"/>",
                        look.class(),
                        (to - from).max(0.5),
                        (bottom - top).max(0.0),
                    );
                }
            }
        }
    }
}

/// A vertical line.
struct Mark<'a> {
    at: f64,
    /// The row of its name above the plot.
    row: usize,
    left: f64,
    name: &'a str,
}

fn marks<'a>(panel: &'a Panel, x: &Scale) -> Vec<Mark<'a>> {
    let marks: Vec<(f64, &str)> =
        panel.marks.iter().map(|(at, name)| (x.place(*at), name.as_str())).collect();
    let rows = labels::rows(&marks, x.start, WIDTH - RIGHT);
    let mark = |(&(at, name), (row, left))| Mark { at, row, left, name };
    marks.iter().zip(rows).map(mark).collect()
}

/// The name of each line beside its end, with a thin line to it if other names are in the way.
fn name_ends(svg: &mut String, panel: &Panel, x: &Scale, y: &Scale) {
    let end = |series: &'_ Series| {
        let (at, value) = series.points.iter().rfind(|point| point.1.is_finite())?;
        Some((x.place(*at), y.place(*value)))
    };
    let named = panel.series.iter().filter(|series| !series.name.is_empty());
    let ends: Vec<(&Series, (f64, f64))> =
        named.filter_map(|series| Some((series, end(series)?))).collect();
    let places: Vec<f64> = ends.iter().map(|(_, end)| end.1).collect();
    let low = y.end + 4.0;
    for ((series, from), at) in ends.iter().zip(labels::spread(&places, low, y.start - 2.0)) {
        let left = x.end + LEAD;
        let class = format!("lead {}", series.look.class());
        line(svg, &class, *from, (left - 3.0, at), 1);
        text(svg, "", left, at + 4.0, &series.name);
    }
}

fn axes(svg: &mut String, panel: &Panel, x: &Scale, y: &Scale) {
    text(svg, "", 12.0, TOP - 11.0, &format!("{}: {}", panel.title, panel.y_label));
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

fn polyline(svg: &mut String, look: Look, points: &[(f64, f64)]) {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        svg,
        "<polyline class=\"{}\" style=\"fill:none\" points=\"{}\"/>",
        look.class(),
        points.join(" ")
    );
}

/// A disc, a square, a triangle or a diamond.
fn marker(svg: &mut String, look: Look, (x, y): (f64, f64)) {
    let outline = [
        "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z",
        "m-3 -3h6v6h-6z",
        "m-4 3h8l-4 -7z",
        "m-4 0l4 -4l4 4l-4 4z",
    ][look.number % 4];
    let colour = look.number % COLOURS.len();
    let _ = writeln!(svg, "<path class=\"c{colour}\" d=\"M{x:.1} {y:.1}{outline}\"/>");
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

/// A tick with its significant digits.
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
        assert_eq!(scale(10.0, 99_000.0, true).ticks(), [10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!(scale(0.5, 60.0, true).ticks(), [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(scale(10.0, 1000.0, true).place(100.0), 50.0);
        assert_eq!(scale(5.0, 5.0, false).place(5.0), 50.0);
    }

    #[test]
    fn text_cannot_break_out_and_what_is_no_number_is_left_out() {
        let look = Look { number: 1, apart: true };
        let series = |name: &str, points| Series { name: name.to_owned(), look, points };
        let panel = |shape, logarithmic| Panel {
            title: "<a & b>".to_owned(),
            x_label: String::new(),
            y_label: String::new(),
            shape,
            labels: vec!["\"one\"".to_owned()],
            logarithmic_x: logarithmic,
            logarithmic,
            marks: vec![(1.0, "<here>".to_owned())],
            named_at_ends: false,
            series: vec![series("x", vec![(0.0, f64::NAN), (1.0, 2.0)]), series("y", vec![])],
        };
        let svg = figure("<t>", &[panel(Shape::Lines, true), panel(Shape::Bars, false)]);
        assert!(svg.contains("&lt;a &amp; b&gt;") && svg.contains(">&lt;here&gt;<"));
        assert!(svg.contains("&quot;one&quot;"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        // Two in the legend, and one point.
        assert_eq!(svg.matches("<path").count(), 3);
    }

    #[test]
    fn a_legend_stays_within_the_page() {
        let names = ["one", "another", "a third of a longer name", "four", "five", "six", "seven"];
        let series = |(number, name): (usize, &&str)| Series {
            name: (*name).to_owned(),
            look: Look { number, apart: false },
            points: vec![(0.0, 1.0)],
        };
        let panel = || lines("", "", "", names.iter().enumerate().map(series).collect());
        let narrow = Legend::new(&[panel()]);
        assert!(narrow.rows > 1);
        for (&(x, y), name) in narrow.places.iter().zip(names) {
            assert!(x + 31.0 + 6.7 * name.len() as f64 <= WIDTH, "{name} at {x}");
            assert!(y < TOP + ROW * (narrow.rows - 1) as f64 - 20.0, "{name} at {y}");
        }
        assert_eq!(Legend::new(&[panel(), panel()]).rows, 1);
    }

    /// By the definition of the Web Content Accessibility Guidelines.
    fn luminance(colour: &str) -> f64 {
        let part = |at: usize| {
            let value = u8::from_str_radix(&colour[at..at + 2], 16).unwrap();
            let value = f64::from(value) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    #[test]
    fn colours_show_on_light_and_dark() {
        for colour in COLOURS {
            for paper in ["#ffffff", "#0d1117"] {
                let (one, other) = (luminance(colour) + 0.05, luminance(paper) + 0.05);
                let contrast = (one / other).max(other / one);
                assert!(contrast >= 3.0, "{colour} on {paper}: {contrast:.2}");
            }
        }
    }
}
