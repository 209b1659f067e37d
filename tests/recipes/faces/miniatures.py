"""A writer of a miniature CASIA-WebFace."""

from tests.datasets.public.miniatures import write_files


def write_casia(root, content, people=4, images=3):
    """CASIA-WebFace as folders of people; what its reader has to count."""
    files = [f"{7 * person:07}/{image:03}.jpg" for person in range(people) for image in range(1, images + 1)]
    write_files(root, files, content)
    return people * images, people
