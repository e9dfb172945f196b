//! Draws the picture of README.md: throughputs of docs/cache-speed.md as bars, for light and for
//! dark pages. `cargo xtask figures` draws it after measuring; a test compares picture and page.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, ensure};

/// The page with the figures.
pub(crate) const TABLES: &str = "docs/cache-speed.md";
/// Threads whose rows are shown.
const THREADS: &str = "2";
/// Names of workloads in the tables, and in the picture.
const WORKLOADS: [(&str, &str); 4] = [
    ("hit", "all keys cached"),
    ("zipf-10", "Zipf 1.0, 10 % cached"),
    ("zipf-1", "Zipf 1.0, 1 % cached"),
    ("write-10", "half insertions, 10 % cached"),
];
/// Names of engines in the tables, and in the picture.
const ENGINES: [(&str, &str); 4] =
    [("mobius", "Frazil"), ("quick_cache", "quick_cache"), ("foyer", "foyer"), ("moka", "moka")];

/// Colours of a page.
struct Theme {
    name: &'static str,
    paper: &'static str,
    ink: &'static str,
    grid: &'static str,
    engines: [&'static str; 4],
}

const THEMES: [Theme; 2] = [
    Theme {
        name: "light",
        paper: "#ffffff",
        ink: "#1f2328",
        grid: "#d8dee4",
        engines: ["#1f77d0", "#868b94", "#a5aab2", "#c4c8ce"],
    },
    Theme {
        name: "dark",
        paper: "#0d1117",
        ink: "#e6edf3",
        grid: "#3d444d",
        engines: ["#58a6ff", "#8b949e", "#6e7681", "#484f58"],
    },
];

const WIDTH: f64 = 800.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 60.0;
const TOP: f64 = 56.0;
const BAR: f64 = 13.0;
const GROUP: f64 = 66.0;

/// Draws both pictures from the tables.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(root.join(TABLES)).context(TABLES)?;
    for (path, picture) in drawn(&text)? {
        std::fs::write(root.join(&path), picture).context(path)?;
    }
    Ok(())
}

/// The pictures of the tables in `text`, with their paths.
fn drawn(text: &str) -> anyhow::Result<Vec<(String, String)>> {
    let mut groups = Vec::new();
    for (workload, _) in WORKLOADS {
        let mut bars = Vec::new();
        for (engine, _) in ENGINES {
            bars.push(throughput(text, workload, engine)?);
        }
        groups.push(bars);
    }
    let path = |theme: &Theme| format!("docs/figures/throughput-{}.svg", theme.name);
    Ok(THEMES.iter().map(|theme| (path(theme), draw(theme, &groups))).collect())
}

/// Million operations a second of an engine in a workload.
fn throughput(text: &str, workload: &str, engine: &str) -> anyhow::Result<f64> {
    let what = || format!("{TABLES}: no row of {engine} in {workload}");
    let section = text.split(&format!("\n{workload}: workload ")).nth(1).with_context(what)?;
    let rows = section.lines().skip(2).take_while(|line| !line.is_empty());
    let mut rows = rows.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row.starts_with(&[THREADS, engine])).with_context(what)?;
    let figure: f64 = row.get(2).with_context(what)?.parse().with_context(what)?;
    ensure!(figure > 0.0, "{TABLES}: {engine} in {workload}: {figure}");
    Ok(figure)
}

fn draw(theme: &Theme, groups: &[Vec<f64>]) -> String {
    let most = groups.iter().flatten().copied().fold(0.0, f64::max);
    let end = (most / 20.0).ceil() * 20.0;
    let scale = (WIDTH - LEFT - RIGHT) / end;
    let bottom = TOP + GROUP * groups.len() as f64;
    let height = bottom + 34.0;
    let Theme { paper, ink, grid, engines, .. } = theme;
    let title = "Million operations a second, two threads, one million keys of 8 bytes";
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n<title>{title}</title>\n\
         <style>text{{fill:{ink};font:13px sans-serif}}.end{{text-anchor:end}}\
         .mid{{text-anchor:middle}}.title{{font-weight:bold}}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"{paper}\"/>\n\
         <text class=\"title\" x=\"12\" y=\"20\">{title}</text>\n"
    );
    let mut x = 12.0;
    for ((_, name), colour) in ENGINES.iter().zip(engines) {
        let _ =
            write!(svg, "<rect x=\"{x}\" y=\"31\" width=\"12\" height=\"12\" fill=\"{colour}\"/>");
        let _ = writeln!(svg, "<text x=\"{}\" y=\"42\">{name}</text>", x + 17.0);
        x += 40.0 + 8.0 * name.len() as f64;
    }
    for step in 0..=(end / 20.0) as u32 {
        let (value, x) = (step * 20, LEFT + f64::from(step * 20) * scale);
        let _ = write!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\" stroke=\"{grid}\"/>"
        );
        let _ = writeln!(
            svg,
            "<text class=\"mid\" x=\"{x:.1}\" y=\"{:.1}\">{value}</text>",
            bottom + 18.0
        );
    }
    for ((at, bars), (_, workload)) in groups.iter().enumerate().zip(WORKLOADS) {
        let top = TOP + GROUP * at as f64 + (GROUP - BAR * bars.len() as f64) / 2.0;
        let _ = writeln!(
            svg,
            "<text class=\"end\" x=\"{}\" y=\"{:.1}\">{workload}</text>",
            LEFT - 8.0,
            top + BAR * bars.len() as f64 / 2.0 + 4.0
        );
        for ((place, value), colour) in bars.iter().enumerate().zip(engines) {
            let (y, length) = (top + BAR * place as f64, value * scale);
            let _ = write!(
                svg,
                "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{:.1}\" \
                 fill=\"{colour}\"/>",
                BAR - 1.5
            );
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\">{value}</text>",
                LEFT + length + 5.0,
                y + BAR - 2.0
            );
        }
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_has_the_figures_of_the_tables() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let text = std::fs::read_to_string(root.join(TABLES)).unwrap();
        for (path, picture) in drawn(&text).unwrap() {
            let kept = std::fs::read_to_string(root.join(&path)).unwrap_or_default();
            assert!(kept == picture, "{path}: `cargo xtask figures --only NOTHING` draws it");
        }
    }

    #[test]
    fn a_row_that_is_not_there_is_named() {
        let error = throughput("\nhit: workload hit\nhead\n1 mobius 3 \n", "hit", "mobius");
        assert!(error.unwrap_err().to_string().contains("no row of mobius in hit"));
    }
}
