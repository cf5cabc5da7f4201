//! `neuron-emu replay`: transcripts of the real driver against the model.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use neuron_kmd::replay::{self, Difference, ReplayError};

/// Table of differences that have a measured reason, beside the folders or archives of the driver
/// versions: path of the transcript below its folder, step (or `log`), reason.
const KNOWN: &str = "known-differences.tsv";

/// Why a path cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The system refuses.
    #[error("cannot read {}: {error}; give a transcript (.json), an archive of transcripts (.tar.gz) or a folder", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Nothing to do.
    #[error("{} holds no transcript; give a folder with .json or .tar.gz files", .0.display())]
    Empty(PathBuf),
    /// Not a transcript.
    #[error("{}: {error}", path.display())]
    Transcript {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: ReplayError,
    },
    /// The recording it stands for is not there.
    #[error("{}: it says it is the same as {other}, which cannot be read; keep the recordings of a driver version together", path.display())]
    Original {
        /// The file.
        path: PathBuf,
        /// The other one.
        other: String,
    },
}

/// A set of recordings: names as `DEVICE/SCENARIO.json` to texts.
enum Recordings {
    Folder(PathBuf),
    Archive(PathBuf, BTreeMap<String, String>),
}

impl Recordings {
    fn archive(path: &Path) -> Result<Self, InputError> {
        let error = |error| InputError::Read { path: path.to_owned(), error };
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(fs::File::open(path).map_err(error)?));
        let mut files = BTreeMap::new();
        for entry in archive.entries().map_err(error)? {
            let mut entry = entry.map_err(error)?;
            let name = entry.path().map_err(error)?.to_string_lossy().into_owned();
            if name.ends_with(".json") {
                let mut text = String::new();
                entry.read_to_string(&mut text).map_err(error)?;
                files.insert(name.trim_start_matches("./").to_owned(), text);
            }
        }
        Ok(Self::Archive(path.to_owned(), files))
    }

    fn text(&self, name: &str) -> Result<String, InputError> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join(name);
                fs::read_to_string(&path).map_err(|error| InputError::Read { path, error })
            }
            Self::Archive(path, files) => {
                let missing = || InputError::Read { path: path.join(name), error: io::ErrorKind::NotFound.into() };
                files.get(name).cloned().ok_or_else(missing)
            }
        }
    }

    /// The recordings of another driver version beside these.
    fn sibling(&self, version: &str) -> Result<Self, InputError> {
        match self {
            Self::Folder(folder) => Ok(Self::Folder(folder.with_file_name(version))),
            Self::Archive(path, _) => Self::archive(&path.with_file_name(format!("{version}.tar.gz"))),
        }
    }

    /// Steps of a transcript that the table beside these recordings lets differ.
    fn known(&self, name: &str) -> Vec<String> {
        let (Self::Folder(whole) | Self::Archive(whole, _)) = self;
        let version = whole.file_name().unwrap_or_default().to_string_lossy();
        let path = format!("{}/{name}", version.trim_end_matches(".tar.gz"));
        let table = fs::read_to_string(whole.with_file_name(KNOWN)).unwrap_or_default();
        let rows = table.lines().filter_map(|line| line.strip_prefix(&path)?.strip_prefix('\t'));
        rows.filter_map(|row| row.split_once('\t')).map(|(step, _)| step.to_owned()).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        match self {
            Self::Folder(folder) => folder.join(name),
            Self::Archive(path, _) => path.join(name),
        }
    }

    /// Replays one of them; the line to print, and whether everything matched.
    fn replay(&self, name: &str) -> Result<(bool, String), InputError> {
        let path = self.path(name);
        let wrong = |error| InputError::Transcript { path: path.clone(), error };
        let transcript = replay::parse(&self.text(name)?).map_err(wrong)?;
        let original = match replay::same_as(&transcript) {
            None => None,
            Some(other) => {
                let missing = |_| InputError::Original { path: path.clone(), other: other.to_owned() };
                let elsewhere =
                    other.split_once('/').filter(|(first, _)| first.starts_with(|c: char| c.is_ascii_digit()));
                let text = match elsewhere {
                    Some((version, name)) => self.sibling(version).map_err(missing)?.text(name),
                    None => self.text(other),
                };
                Some(replay::parse(&text.map_err(missing)?).map_err(wrong)?)
            }
        };
        let outcome = replay::replay(&transcript, original.as_ref()).map_err(wrong)?;
        let known = self.known(name);
        let step = |d: &Difference| d.step.map_or("log".to_owned(), |s| s.to_string());
        let (excused, left): (Vec<_>, Vec<_>) = outcome.differences.iter().partition(|d| known.contains(&step(d)));
        let mut line = format!("{} {}/{}", path.display(), outcome.matched, outcome.total);
        if !excused.is_empty() {
            line += &format!(" ({} known)", excused.len());
        }
        Ok(match left.first() {
            None => (true, format!("ok {line}")),
            // Recorded texts may have more lines than one.
            Some(first) => (false, format!("differs {line}: {}", first.to_string().replace('\n', "\\n"))),
        })
    }
}

/// What is under a path the user gave, in a stable order.
fn collect(path: &Path, found: &mut Vec<PathBuf>) -> Result<(), InputError> {
    let error = |error| InputError::Read { path: path.to_owned(), error };
    if !fs::metadata(path).map_err(error)?.is_dir() {
        found.push(path.to_owned());
        return Ok(());
    }
    let mut entries: Vec<_> =
        fs::read_dir(path).map_err(error)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>().map_err(error)?;
    entries.sort();
    for entry in entries {
        let name = entry.to_string_lossy();
        if entry.is_dir() || name.ends_with(".json") || name.ends_with(".tar.gz") {
            collect(&entry, found)?;
        }
    }
    Ok(())
}

/// Replays everything under `paths`: a line per transcript on `out`, a sentence per unusable
/// input on `errors`. Differences that `known-differences.tsv` beside the recordings gives a
/// reason for are counted and forgiven.
///
/// Returns the exit status: 0 when every transcript matches, 1 when one differs, 2 when an input
/// cannot be used.
///
/// # Errors
/// When a line cannot be written.
pub fn run(paths: &[PathBuf], out: &mut dyn Write, errors: &mut dyn Write) -> io::Result<u8> {
    let mut status = 0;
    let mut line = |result: Result<(bool, String), InputError>| {
        match result {
            Ok((same, line)) => {
                writeln!(out, "{line}")?;
                status = status.max(u8::from(!same));
            }
            Err(error) => {
                writeln!(errors, "neuron-emu: {error}")?;
                status = 2;
            }
        }
        out.flush()
    };
    for path in paths {
        let mut files = Vec::new();
        match collect(path, &mut files) {
            Ok(()) if files.is_empty() => line(Err(InputError::Empty(path.clone())))?,
            Ok(()) => {}
            Err(error) => line(Err(error))?,
        }
        for file in files {
            if file.to_string_lossy().ends_with(".tar.gz") {
                match Recordings::archive(&file) {
                    Ok(archive) => {
                        let Recordings::Archive(_, names) = &archive else { unreachable!("just made") };
                        for name in names.keys() {
                            line(archive.replay(name))?;
                        }
                    }
                    Err(error) => line(Err(error))?,
                }
            } else {
                line(single(&file))?;
            }
        }
    }
    Ok(status)
}

/// One transcript file. Names of other recordings are relative to the folder above its own.
fn single(file: &Path) -> Result<(bool, String), InputError> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    match file.parent().and_then(|device| Some((device.parent()?, device.file_name()?))) {
        Some((version, device)) => {
            Recordings::Folder(version.to_owned()).replay(&format!("{}/{name}", device.to_string_lossy()))
        }
        None => Recordings::Folder(file.parent().unwrap_or(Path::new("")).to_owned()).replay(&name),
    }
}
